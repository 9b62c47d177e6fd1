"""Spells the keys that the service names; all others are made in Lua from these (see lua/acker.lua for the map)."""

TOPOLOGIES = "acker:{topologies}"
"""The names of all topologies; its hash tag is that of all configuration."""


TICKED = f"{TOPOLOGIES}::ticked"
"""There while a worker lets time pass; no topology has such a name."""


def shard(topology: str, number: int) -> str:
    """The stamp of a shard; its hash tag is that of all the shard's keys."""
    return f"acker:{{{topology}/{number}}}"


def due(topology: str, number: int, incarnation: str) -> str:
    """The deadline index of a shard: absent where nothing is pending or early."""
    return f"{shard(topology, number)}:{incarnation}:due"


def hints(topology: str, number: int) -> str:
    """The channel of a shard's news."""
    return f"{shard(topology, number)}:hints"


def topology(name: str) -> str:
    """A topology's configuration."""
    return f"{TOPOLOGIES}:{name}"


def spouts(name: str, incarnation: str) -> str:
    """The spout tasks of a topology."""
    return f"{topology(name)}:{incarnation}:spouts"
