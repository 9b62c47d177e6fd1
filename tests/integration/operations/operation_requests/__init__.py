"""Requests to the five addresses of operations, with the answers as they were recorded."""
