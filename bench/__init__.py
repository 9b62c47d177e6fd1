"""What is measured, not tested: `make bench`, or `python -m bench --help`."""
