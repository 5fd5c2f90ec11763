"""What makes the documentation site: pages are gathered, notebooks run, rounds drawn, reports photographed."""
