"""The keys that the service names; Lua derives all others from these (see lua/acker.lua for the map)."""

TOPOLOGIES = "acker:{topologies}"
"""The names of all topologies; its hash tag is that of all configuration."""


TICKED = f"{TOPOLOGIES}::ticked"
"""Exists while a worker expires roots; no topology has such a name."""

ACTS = f"{TOPOLOGIES}::acts"
"""What operators forced or discarded."""

PROCESSES = f"{TOPOLOGIES}::processes"
"""The processes that run."""

SAMPLED = f"{TOPOLOGIES}::sampled"
"""The number of the step of time whose history a worker took last."""

LAYOUT = f"{TOPOLOGIES}::layout"
"""The number of the layout of all keys and records; written with each topology."""


def shard(topology: str, number: int) -> str:
    """The stamp of a shard, whose hash tag all keys of the shard share."""
    return f"acker:{{{topology}/{number}}}"


_FOR_ROOTS = ("due", "counts", "pending", "used", "early")
WITHOUT_NUMBER = (
    *_FOR_ROOTS,
    "ticks",
    "remembered",
    "unread",
    "heads",
    "tips",
    "begun",
    "sent",
    "leases",
    "dead",
    "read",
    "delivered",
    "errors",
)
"""The last parts of keys that a shard has once something was written there; ``counts`` never expires."""


def due(topology: str, number: int, incarnation: str) -> str:
    """The deadline index of a shard: absent while no root is pending or early, and no outcome is stored."""
    return f"{shard(topology, number)}:{incarnation}:due"


def hints(topology: str, number: int) -> str:
    """The channel on which a shard announces new completions."""
    return f"{shard(topology, number)}:hints"


def topology(name: str) -> str:
    """The configuration of a topology."""
    return f"{TOPOLOGIES}:{name}"


def spouts(name: str, incarnation: str) -> str:
    """The spout tasks of a topology."""
    return f"{topology(name)}:{incarnation}:spouts"


def history(name: str, incarnation: str, level: int) -> str:
    """The samples of a topology's totals, of a level from 1 to 3."""
    return f"{topology(name)}:{incarnation}:history{level}"
