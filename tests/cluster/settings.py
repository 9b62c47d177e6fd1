"""Knows the settings that are tried: when the service calls a write done, and how Valkey is set up for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A name, what `ACKER_DURABILITY` is, and options of Valkey; ``loses_nothing``: it promises to lose no init."""

    name: str
    durability: str
    options: tuple[str, ...] = ("--appendfsync", "everysec")
    loses_nothing: bool = False


SETTINGS = [
    Setting(name="relaxed", durability="relaxed"),
    Setting(
        name="min-replicas",
        durability="relaxed",
        options=("--appendfsync", "everysec", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"),
    ),
    Setting(name="fsync", durability="fsync", options=("--appendfsync", "always")),
    Setting(name="replica:1", durability="replica:1", loses_nothing=True),
]
