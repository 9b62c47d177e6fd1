"""The settings that are tried: when the service calls a write done, and how Valkey is set up for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A name, what `ACKER_DURABILITY` is, and options of Valkey.

    ``keeps``: it promises to lose nothing as long as nodes keep what they have; ``flushes``: nor when all lose power.
    ``pretended``: it promises what it does not keep, to see that this is found; it is tried only if it is asked for.
    """

    name: str
    durability: str
    options: tuple[str, ...] = ("--appendfsync", "everysec")
    keeps: bool = False
    flushes: bool = False
    pretended: bool = False

    def is_tried(self, asked: list[str] | None) -> bool:
        return self.name in asked if asked else not self.pretended


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
    Setting(name="pretended", durability="relaxed", keeps=True, flushes=True, pretended=True),
]
