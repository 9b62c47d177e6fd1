"""The command ``acker``."""
