"""The documentation as a site: `make docs` builds it from the pages of the repository."""
