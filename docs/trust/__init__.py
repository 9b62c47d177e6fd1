"""The page docs/trust.md: results of long runs, kept in docs/trust/runs, and the program that writes the page."""
