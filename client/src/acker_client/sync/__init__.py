"""The client for programs of threads."""
