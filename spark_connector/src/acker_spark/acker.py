"""Knows what a Spark program says to an acker."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, Unpack

import acker_client as client
from pyspark.sql import functions as F

from acker_spark import columns, windows
from acker_spark.batch import BatchFunction, checked
from acker_spark.columns import ANCHORS, EDGE, MESSAGE, ROOT, TAG
from acker_spark.heartbeat import Heartbeat
from acker_spark.line import Line, World
from acker_spark.options import Further, Options
from acker_spark.row_batch import RowFunction
from acker_spark.rows import every, gone

if TYPE_CHECKING:
    from acker_client.completions import Done
    from acker_client.mailbox import Reading
    from pyspark.sql import Column, DataFrame

    from acker_spark import row_batch
    from acker_spark.batch import Function
    from acker_spark.shipping import Shipped
    from acker_spark.topology import Topology


BEATS_PER_TIMEOUT = 3


class Acker:
    """The acker at ``url``, for a spout task of one topology, which is made if it is not there. ::

        acker = Acker(url="http://127.0.0.1:8700", topology="sentences", spout_task="reader")

        def count_words(batch, batch_id, ledger):
            ledger.fail(batch.where("sentence like '%cow%'"), "no cows")

        (acker.root(lines, message_id="id").writeStream
            .foreachBatch(acker.batch(count_words)).option("checkpointLocation", …).start())

    `Options` says what each option means, and refuses all wrong ones at once. ``on_batch`` hears what each batch has
    shipped. Nothing is sent before the first batch runs.
    """

    _line: Line | None
    _pulse: Line | None
    _topology: "Topology | None"

    def __init__(
        self,
        *,
        url: str,
        topology: str,
        spout_task: str,
        on_batch: "Callable[[Shipped], object] | None" = None,
        world: World | None = None,
        **further: Unpack[Further],
    ) -> None:
        self.options = Options(url=url, topology=topology, spout_task=spout_task, **further)
        self._on_batch, self._world, self._frames = on_batch, world or World(), 0
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        """Travel without connections: Spark Connect runs the function of a batch in a process of its own."""
        return {"options": self.options, "_on_batch": self._on_batch, "_world": self._world, "_frames": self._frames}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; what is called afterwards opens them again."""
        for line in (self._line, self._pulse):
            if line is not None:
                line.close()
        self._forget()

    @property
    def line(self) -> Line:
        """The line to the acker."""
        if self._line is None:
            self._line = Line(self.options, retry_for=self.options.retry_for, world=self._world)
        return self._line

    @property
    def pulse(self) -> Line:
        """A line for heartbeats, which are not sent again for longer than until the next."""
        if self._pulse is None:
            self._pulse = Line(self.options, retry_for=self._beat_s(), world=self._world)
        return self._pulse

    @property
    def topology(self) -> "Topology":
        """The topology, asked for when it is first needed. Raises `UnfitTopology`."""
        if self._topology is None:
            self._topology = self.line.topology()
        return self._topology

    def root(
        self, frame: "DataFrame", message_id: "str | Column", *, attempt: "str | Column | None" = None
    ) -> "DataFrame":
        """Make each message of a frame a root, begun by the batch that comes to hold it.

        The root id is a hash of topology, spout task, message id and attempt: a message that is replayed is a new root
        by its ``attempt``. Of rows with the same root in a batch one is kept. Rows that are filtered out before their
        batch, or held back there by a window or a join, are not begun. A query's progress tells how many there were, as
        ``observedMetrics["acker"].roots`` (of a second such frame ``acker-2``, and so on).
        """
        message = columns.column(message_id).cast("string")
        parts = () if attempt is None else (columns.column(attempt),)
        rooted = frame.withColumns(
            {
                MESSAGE: message,
                ROOT: columns.hashed(self.options.topology, self.options.spout_task, message, *parts),
                TAG: F.rand(),
            }
        )
        counted = rooted.observe(self._observation(), F.count(F.lit(1)).alias("roots"))
        return counted.withColumn(EDGE, columns.hashed(F.col(ROOT), "edge"))

    def received(self, frame: "DataFrame", *, root: "str | Column" = ROOT, edge: "str | Column" = EDGE) -> "DataFrame":
        """Take rows that somebody else has emitted, with their anchors in two columns.

        Each is ``bigint`` or 16 hex digits. They are acked edge by edge and once, however often a row is delivered.
        """
        return frame.withColumns(
            {
                ROOT: columns.identity(root, is_text=_is_text(frame, root)),
                EDGE: columns.identity(edge, is_text=_is_text(frame, edge)),
                TAG: F.rand(),
                MESSAGE: F.lit(None).cast("boolean"),
            }
        )

    def batch(self, function: "Function", *rest: Any) -> BatchFunction:
        """Give to ``foreachBatch`` a function of batch, batch id and ledger; what it is given is acked on its return.

        Raises `Misuse` for what is no such function.
        """
        checked(function, *rest, verb="batch", takes="batch, batch_id, ledger")
        return BatchFunction(acker=self, function=function)

    def ack_rows(self, function: "row_batch.Function", *rest: Any) -> RowFunction:
        """Give to ``foreachBatch`` a function of rows and batch id, at row level: all rows are acked on its return.

        It is given the live rows, without the connector's columns. Raises `Misuse` for what is no such function.
        """
        checked(function, *rest, verb="ack_rows", takes="rows, batch_id")
        return RowFunction(acker=self, function=function, ends=every)

    def send_rows(self, function: "row_batch.Function", *rest: Any) -> RowFunction:
        """As `ack_rows`, for rows that leave with their anchors, to be acked where they arrive.

        Acked here are the rows that were filtered out; failed those that failed.
        """
        checked(function, *rest, verb="send_rows", takes="rows, batch_id")
        return RowFunction(acker=self, function=function, ends=gone, keeps=(ROOT, EDGE, ANCHORS))

    def window_rows(
        self, frame: "DataFrame", time: str, duration: str, *, slide: str | None = None, delay: str = "0 seconds"
    ) -> "DataFrame":
        """Give rows their windows, in the column ``window``, with a watermark ``delay`` behind on the column ``time``.

        Group by the window and put `gathered` into ``agg``; what a window emits carries the anchors of all its rows.
        Raises `Misuse` for a window that is open for longer than the message timeout.
        """
        timeout = self.options.message_timeout or self.topology.message_timeout_ms / 1000
        windows.refuse_long(duration, delay, message_timeout=timeout)
        return windows.windowed(frame, time, duration, slide, delay)

    def completions(self, **reading: "Unpack[Reading]") -> "Iterator[Done]":
        """Hear what became of the roots of this spout task, in any program, as with `acker_client.Spout.completions`.

        One is released when the loop body for it has ended. A spout task has one reader: this, ``format("acker")``, a
        webhook (`acker_client.webhook_app`), or whoever asks over HTTP.
        """
        told = self.options
        with client.Acker(told.url, topology=told.topology, api_key=told.token) as acker:
            yield from acker.spout(told.spout_task, shared=True).completions(**reading)

    def header(self) -> "Column":
        """Give the value of the header ``Acker-Anchors`` for rows that leave, by whatever ``ledger.emit`` gave."""
        return columns.header(self.options.topology)

    def heartbeat(self, beat: Callable[[], object]) -> Heartbeat:
        """Make the heartbeat of a batch, three for each message timeout."""
        return Heartbeat(beat, every=self._beat_s(), lasting=self.options.heartbeat_for)

    def tell(self, shipped: "Shipped") -> None:
        """Tell what a batch has shipped."""
        if self._on_batch is not None:
            self._on_batch(shipped)

    def _observation(self) -> str:
        """Name the metrics of a frame: two of one query must have two names."""
        self._frames += 1
        return "acker" if self._frames == 1 else f"acker-{self._frames}"

    def _beat_s(self) -> float:
        timeout_ms = self.options.message_timeout_ms or self.topology.message_timeout_ms
        return timeout_ms / 1000 / BEATS_PER_TIMEOUT

    def _forget(self) -> None:
        self._line, self._pulse, self._topology = None, None, None


def _is_text(frame: "DataFrame", named: "str | Column") -> bool:
    return dict(frame.select(columns.column(named)).dtypes).popitem()[1] == "string"
