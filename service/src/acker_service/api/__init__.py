"""The door in: HTTP."""
