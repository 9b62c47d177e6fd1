"""The calls of the Lua library's functions, a module for each subject."""

from acker_service.redis.functions import (
    apply,
    expiry,
    failures,
    history,
    mailboxes,
    monitoring,
    roots,
    spouts,
    topologies,
    traces,
)

__all__ = [
    "apply",
    "expiry",
    "failures",
    "history",
    "mailboxes",
    "monitoring",
    "roots",
    "spouts",
    "topologies",
    "traces",
]
