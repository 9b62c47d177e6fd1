"""The page docs/trust.md: results of long runs, kept in docs/trust/results, and the program that writes the page."""
