"""The door out: timeouts, and completions on their way."""
