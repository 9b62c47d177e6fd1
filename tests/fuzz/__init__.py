"""Fuzzers of everything that reads bytes from outside; `make fuzz` runs them, and the corpus is kept beside them."""
