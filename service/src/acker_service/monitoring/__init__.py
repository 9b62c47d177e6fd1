"""Watches the store: snapshots of its state, backpressure when it is full."""
