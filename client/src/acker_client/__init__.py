"""Tells an acker what was emitted and what is done."""
