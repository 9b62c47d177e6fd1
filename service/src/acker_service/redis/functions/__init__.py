"""The calls of the Lua library's functions, a module for each subject; the files of lua/ have the same names."""

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
