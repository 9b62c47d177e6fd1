"""Decides, asks nobody: pure functions over plain values."""
