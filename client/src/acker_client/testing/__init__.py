"""An acker in memory for the tests of a program, and a clock that they move by hand."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acker_client.testing.clock import Clock
    from acker_client.testing.memory import MemoryAcker, lost_reply

__all__ = ["Clock", "MemoryAcker", "lost_reply"]

_LAZY = {"Clock": "clock", "MemoryAcker": "memory", "lost_reply": "memory"}
"""Imported at the first access: pytest imports the plugin of this package at every start, without httpx."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
