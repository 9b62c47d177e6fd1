"""Knows the acks that are on their way: gathered, then frozen into requests with their keys, then answered or lost."""

import math
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_client.errors import Undelivered
from acker_client.folding import Gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from acker_protocol.operations import Operation

    from acker_client.calls import Call


@dataclass(slots=True, kw_only=True)
class Shipment:
    """A request that is frozen; ``since`` is when it, or the one that was refused before it, was first sent.

    ``due`` is when a refused one may be sent again, and ``waits`` are the seconds to wait after each further refusal.
    """

    call: "Call"
    roots: frozenset[int]
    since: float | None = None
    due: float = -math.inf
    waits: "Iterator[float] | None" = None


class Outbox:
    """What one acker has gathered and not yet brought home; for any number of threads.

    One flow at a time sends, and what it sends stays until it is answered or given up. So an interrupted sender loses
    nothing: the next one sends the same bytes with the same key. What the service refuses waits behind all else.
    """

    def __init__(self, *, batch_size: int, buffer_size: int) -> None:
        self._batch_size, self._buffer_size = batch_size, buffer_size
        self.undelivered = 0
        self.start_anew()

    def start_anew(self) -> None:
        """Be empty, as in a forked child: what the parent has gathered, the parent sends."""
        self._lock = threading.Lock()
        self._gathered = Gathered()
        self._frozen: deque[Shipment] = deque()
        self._faults: list[tuple[int, Exception]] = []
        self._watched = False

    def __len__(self) -> int:
        return len(self._gathered) + sum(len(shipment.call.messages) for shipment in tuple(self._frozen))

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way and nothing is to be told."""
        return not len(self) and not self._faults

    @property
    def full(self) -> bool:
        """Whether it has no room for one more."""
        return len(self) >= self._buffer_size

    @property
    def due(self) -> bool:
        """Whether so much is gathered that it is not to linger."""
        return len(self._gathered) >= self._batch_size

    @property
    def has_gathered(self) -> bool:
        """Whether something is gathered and not frozen yet."""
        return bool(self._gathered)

    def holds(self, messages: "Sequence[Operation]") -> bool:
        """Whether something of the same roots is on its way."""
        roots = {message.root_id for message in messages}
        with self._lock:
            return any(not roots.isdisjoint(held) for held in (self._gathered.roots, *(s.roots for s in self._frozen)))

    def gather(self, take: "Callable[[Gathered], None]") -> bool:
        """Take operations in; True where nobody watches over them yet, and the caller has to send for somebody."""
        with self._lock:
            take(self._gathered)
            unwatched = bool(self._gathered) and not self._watched
            self._watched = self._watched or unwatched
            return unwatched

    def watch(self) -> bool:
        """Whether there is something to watch over; if not, the watcher is released by the same look."""
        with self._lock:
            self._watched = bool(self._gathered or self._frozen)
            return self._watched

    def unwatch(self) -> None:
        """Say that the watcher has been stopped: the next one who gathers sends for another."""
        self._watched = False

    def freeze(self, write: "Callable[[Sequence[Operation]], list[Call]]") -> None:
        """Freeze what is gathered into requests; from now on they do not change."""
        with self._lock:
            if self._gathered:
                roots = frozenset(self._gathered.roots)
                self._frozen += [Shipment(call=call, roots=roots) for call in write(self._gathered.messages())]
                self._gathered = Gathered()

    def head(self, now: float) -> Shipment | None:
        """Give the request that is to be sent now."""
        return next((shipment for shipment in tuple(self._frozen) if shipment.due <= now), None)

    def next_due(self) -> float | None:
        """Give the time when the next of all requests is to be sent, None where there is none."""
        return min((shipment.due for shipment in tuple(self._frozen)), default=None)

    def refused(self, shipment: Shipment, again: "Sequence[Call]", *, due: float) -> None:
        """Put requests with what a request refused behind all others, to be sent when they are due."""
        with self._lock:
            self._frozen.remove(shipment)
            self._frozen += [
                Shipment(
                    call=call,
                    roots=frozenset(message.root_id for message in call.messages),
                    since=shipment.since,
                    due=due,
                    waits=shipment.waits,
                )
                for call in again
            ]

    def home(self, shipment: Shipment) -> None:
        """Strike out a request that was answered."""
        self._frozen.remove(shipment)

    def lost(self, shipment: Shipment, error: Exception, *, count: int | None = None) -> None:
        """Give up a request, or ``count`` of its operations; they are counted, and told to the next caller."""
        lost = len(shipment.call.messages) if count is None else count
        with self._lock:
            self._frozen.remove(shipment)
            self._faults.append((lost, error))
            self.undelivered += lost

    def tell(self) -> None:
        """Raise `Undelivered` for what was given up since the last telling."""
        with self._lock:
            faults, self._faults = self._faults, []
        if faults:
            raise Undelivered(sum(count for count, _ in faults)) from faults[-1][1]
