"""Knows the settings that are tried: when the service calls a write done, and how Valkey is set up for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A name, what `ACKER_DURABILITY` is, and options of Valkey.

    ``keeps``: it promises to lose no init as long as nodes keep what they have; ``flushes``: nor when all lose power.
    """

    name: str
    durability: str
    options: tuple[str, ...] = ("--appendfsync", "everysec")
    keeps: bool = False
    flushes: bool = False


SETTINGS = [
    Setting(name="relaxed", durability="relaxed"),
    Setting(
        name="min-replicas",
        durability="relaxed",
        options=("--appendfsync", "everysec", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"),
    ),
    Setting(name="fsync", durability="fsync", options=("--appendfsync", "always"), flushes=True),
    Setting(name="replica:1", durability="replica:1", keeps=True),
    Setting(
        name="replica:1+fsync",
        durability="replica:1",
        options=("--appendfsync", "always"),
        keeps=True,
        flushes=True,
    ),
]
