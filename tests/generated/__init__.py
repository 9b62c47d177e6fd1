"""Generates clients from the API's document and calls an acker with each."""
