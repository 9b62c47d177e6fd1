"""Knows the connections of one who speaks to an acker: opened when first needed, and left behind when it travels."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from acker_spark.hearing import Hearing
from acker_spark.heartbeat import Heartbeat
from acker_spark.line import Line, World

if TYPE_CHECKING:
    from acker_spark.options import Options
    from acker_spark.shipping import Shipped
    from acker_spark.topology import Topology

BEATS_PER_TIMEOUT = 3


class Connected:
    """Has lines to an acker, until it is closed and again afterwards."""

    _line: Line | None
    _pulse: Line | None
    _topology: "Topology | None"
    hearing: Hearing
    """What is heard of the spout task."""

    def __init__(self, options: "Options", world: World, on_batch: "Callable[[Shipped], object] | None" = None) -> None:
        self.options, self._world, self._on_batch, self._lock = options, world, on_batch, Lock()
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        """Travel without connections: Spark Connect runs the function of a batch in a process of its own."""
        left = ("_lock", "_line", "_pulse", "_topology", "hearing")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the loops over completions; what is called afterwards opens them again."""
        with self._lock:
            self.hearing.close()
            opened = self._line, self._pulse
            self._forget()
        for line in opened:
            if line is not None:
                line.close()

    @property
    def line(self) -> Line:
        """The line to the acker: one, for all threads and queries."""
        with self._lock:
            if self._line is None:
                self._line = Line(self.options, retry_for=self.options.retry_for, world=self._world)
            return self._line

    @property
    def pulse(self) -> Line:
        """A line for heartbeats, which are not sent again for longer than until the next."""
        retry_for = self.beat_s
        with self._lock:
            if self._pulse is None:
                self._pulse = Line(self.options, retry_for=retry_for, world=self._world)
            return self._pulse

    @property
    def topology(self) -> "Topology":
        """The topology, asked for when it is first needed. Raises `UnfitTopology`."""
        found = self._topology
        if found is None:
            found = self._topology = self.line.topology()
        return found

    @property
    def beat_s(self) -> float:
        """How long from one heartbeat of a batch to the next."""
        timeout_ms = self.options.message_timeout_ms or self.topology.message_timeout_ms
        return timeout_ms / 1000 / BEATS_PER_TIMEOUT

    def heartbeat(self, beat: Callable[[], object]) -> Heartbeat:
        """Make the heartbeat of a batch, three for each message timeout."""
        return Heartbeat(beat, every=self.beat_s, lasting=self.options.heartbeat_for)

    def tell(self, shipped: "Shipped") -> None:
        """Tell what a batch has shipped."""
        if self._on_batch is not None:
            self._on_batch(shipped)

    def _forget(self) -> None:
        self._line, self._pulse, self._topology = None, None, None
        self.hearing = Hearing(self.options)
