"""Delivers completions to callbacks: webhook and pub/sub."""
