"""Histories of clients: what they sent and were answered, and whether the shipped state machine explains it."""
