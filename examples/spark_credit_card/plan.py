"""The options of a run, and the addresses of its parts."""

from dataclasses import dataclass
from pathlib import Path

TOPOLOGY, SPOUT, QUEUE = "orders", "orders", "orders"
MESSAGE_TIMEOUT_S, DEDUPE_S = 600, 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as the command line asks for it."""

    orders: int
    prefetch: int
    fails: float
    hangs: float
    within_s: float
    seed: int
    careless: bool

    def check(self) -> None:
        """Raise ``ValueError`` if this plan cannot show what it is to show."""
        if min(self.orders, self.prefetch) < 1 or self.within_s <= 0:
            raise ValueError("orders, prefetch and seconds have to be more than 0")
        if self.orders < 4 * self.prefetch:
            raise ValueError("take at least four times as many orders as prefetch, so that kills come in the middle")
        if not (0 <= self.fails < 1 and 0 <= self.hangs < 1 and self.fails + self.hangs < 1):
            raise ValueError("fails and hangs are shares of one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Addresses and files of one run, as the processes get them."""

    acker: str
    broker: str
    cards: str
    notices: str
    folder: str
    prefetch: int
    careless: bool

    @property
    def stream(self) -> Path:
        """The replayable stream of orders."""
        return Path(self.folder) / "orders"

    @property
    def topic(self) -> Path:
        """The stream from the first query to the second."""
        return Path(self.folder) / "settled"

    @property
    def checkpoints(self) -> Path:
        """Where Spark keeps how far each query is."""
        return Path(self.folder) / "checkpoints"

    @property
    def statuses(self) -> Path:
        """The database."""
        return Path(self.folder) / "statuses.sqlite"
