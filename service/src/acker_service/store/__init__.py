"""Remembers: the only room that speaks Redis."""
