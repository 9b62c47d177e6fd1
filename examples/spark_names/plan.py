"""The messages, the names that fail, and the addresses of the parts of a run."""

from dataclasses import dataclass
from pathlib import Path

TOPOLOGY, SPOUT = "names", "reader"
MESSAGE_TIMEOUT_S, DEDUPE_S = 600, 1_200

MESSAGES = {
    "heroes": "刘备 关羽 张飞\n曹操 郭嘉 荀彧",
    "south": "孙权 周瑜\n大乔 小乔",
}
"""Each line is a tuple, and each name in it."""

THROWS_AT = "关羽"
"""Greeting him throws the first time: his tuple alone is run again, and the tree ends without a replay."""

FAILS = "小乔"
"""Greeting her fails the first time: the whole message is replayed, and no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as the command line asks for it; with ``acker`` and ``folder``, as its processes get it."""

    within_s: float
    careless: bool = False
    acker: str = ""
    folder: str = ""

    def place(self, name: str) -> Path:
        """Return the folder of a stream, or of a checkpoint."""
        return Path(self.folder) / name


def names_of(message: str) -> list[str]:
    """Return the names of a message."""
    return MESSAGES[message].split()


def edges_of(message: str) -> int:
    """Count the edges of a message's tree: the message itself, its lines, its names."""
    return 1 + len(MESSAGES[message].splitlines()) + len(names_of(message))
