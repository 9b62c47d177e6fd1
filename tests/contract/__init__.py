"""Holds a real acker to the document that it serves: schemathesis asks, in every way that it knows."""
