"""An acker in memory for the tests of a program, and a clock that they move by hand."""

from acker_client.testing.clock import Clock
from acker_client.testing.memory import MemoryAcker, lost_reply

__all__ = ["Clock", "MemoryAcker", "lost_reply"]
