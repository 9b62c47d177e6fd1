"""Where spouts take their messages from; each source needs an extra of its own."""
