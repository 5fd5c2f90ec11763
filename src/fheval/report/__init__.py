"""Results for people: words and figures, and pages of HTML that need nothing but a browser."""
