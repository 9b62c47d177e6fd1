"""Every group of the bench, with next to nothing of it, so that it does not rot."""
