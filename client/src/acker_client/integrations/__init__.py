"""Integrations with other libraries, each a small module on `acker_client.propagate`."""
