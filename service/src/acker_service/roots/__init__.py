"""Single roots: reading, listing, waiting for the end of one, expiry."""
