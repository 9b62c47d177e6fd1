"""Gives a program's own tests an acker in memory, and a clock that they move by hand."""

from acker_client.testing.clock import Clock
from acker_client.testing.memory_acker import MemoryAcker, after

__all__ = ["Clock", "MemoryAcker", "after"]
