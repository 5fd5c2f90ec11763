"""Results for people: words and figures, plots, and pages of HTML that need nothing but a browser."""
