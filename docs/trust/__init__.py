"""The page docs/trust.md: the results of long runs, which are kept in docs/trust/results, and the program of the page."""
