"""Mailboxes: reading and releasing completions, cursors, waiting for new completions, dead letters."""
