"""The integrations with programs and tools of others, on real ones."""
