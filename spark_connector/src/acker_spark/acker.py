"""Knows what a Spark program says to an acker."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import acker_client as client
from acker_protocol.signature import make_secret
from pyspark.sql import functions as F

from acker_spark import columns, origin, windows
from acker_spark.batch import BatchFunction, checked
from acker_spark.columns import ANCHORS, EDGE, MESSAGE, ROOT, TAG
from acker_spark.connected import Connected
from acker_spark.course import refuse_nameless
from acker_spark.line import World
from acker_spark.options import Further, Options
from acker_spark.row_batch import RowFunction
from acker_spark.rows import every, gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acker_client import Completion
    from acker_client.integrations.asgi import Application
    from pyspark.sql import Column, DataFrame

    from acker_spark import row_batch
    from acker_spark.batch import Function
    from acker_spark.shipping import Shipped


class Acker(Connected):
    """The acker at ``url``, for a spout task of one topology, which is made if it is not there. ::

        acker = Acker(url="http://127.0.0.1:8700", topology="sentences", spout_task="reader")

        def count_words(batch, batch_id, ledger):
            ledger.fail(batch.where("sentence like '%cow%'"), "no cows")

        (acker.root(lines, message_id="id").writeStream
            .foreachBatch(acker.batch(count_words)).option("checkpointLocation", …).start())

    `Options` says what each option means, and refuses all wrong ones at once. ``on_batch`` hears what each batch has
    shipped. Nothing is sent before the first batch runs.
    """

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
        options = Options(url=url, topology=topology, spout_task=spout_task, **further)
        super().__init__(options, world or World(), on_batch)
        self._frames = 0

    def root(
        self, frame: "DataFrame", message_id: "str | Column", *, attempt: "str | Column | None" = None
    ) -> "DataFrame":
        """Make each message of a frame a root, begun by the batch that comes to hold it.

        The root id is a hash of topology, spout task, message id and attempt: a message that is replayed is a new root
        by its ``attempt``. Of rows with the same root in a batch one is kept. Rows that are filtered out before their
        batch, or held back there by a window or a join, are not begun. A query's progress tells how many there were, as
        ``observedMetrics["acker"].roots`` (of a second such frame ``acker-2``, and so on). The batches of another
        spout task refuse them. Raises `NoQueryId` under Spark Connect.
        """
        refuse_nameless(frame, self.options.query_id)
        message = columns.column(message_id).cast("string")
        parts = () if attempt is None else (columns.column(attempt),)
        rooted = frame.withColumns(
            {
                MESSAGE: origin.marked(message, self.options),
                ROOT: columns.hashed(self.options.topology, self.options.spout_task, message, *parts),
                TAG: columns.tag(frame),
            }
        )
        counted = rooted.observe(self._observation(), F.count(F.lit(1)).alias("roots"))
        return counted.withColumn(EDGE, columns.hashed(F.col(ROOT), "edge"))

    def received(self, frame: "DataFrame", *, root: "str | Column" = ROOT, edge: "str | Column" = EDGE) -> "DataFrame":
        """Take rows that somebody else has emitted, with their anchors in two columns.

        Each is ``bigint`` or 16 hex digits. They are acked edge by edge and once, however often a row is delivered.
        Raises `NoQueryId` under Spark Connect.
        """
        refuse_nameless(frame, self.options.query_id)
        return frame.withColumns(
            {
                ROOT: columns.identity(root, is_text=_is_text(frame, root)),
                EDGE: columns.identity(edge, is_text=_is_text(frame, edge)),
                TAG: columns.tag(frame),
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

    def completions(self, **reading: "Any") -> "Iterator[Completion]":
        """Hear what became of the roots of this spout task, in any program, as with `acker_client.Spout.completions`.

        One is released when the loop body for it has ended. A spout task has one reader: this, `pubsub`, `webhook`,
        ``format("acker")``, or whoever asks over HTTP. After `close` the loop ends with the poll that is on its way.
        """
        return self.hearing.asked(reading)

    def pubsub(self, redis_url: str, **pages: "Any") -> "Iterator[Completion]":
        """As `completions`, told by the acker's Redis as they come, none missed: see `acker_client.Spout.subscribe`.

        Needs ``acker-client[redis]``. After `close` the loop ends within a second.
        """
        return self.hearing.published(redis_url, pages)

    def webhook(
        self,
        url: str,
        handler: "Callable[[Completion], Any] | None" = None,
        *,
        secret: str | None = None,
        **receiving: Any,
    ) -> "Application":
        """Have the completions of this spout task posted to ``url``, and give the ASGI application that receives them.

        Serve it there. ``handler`` and the rest are those of `acker_client.webhook_app`; the secret is a new one each
        time unless it is given. The topology is made if it is not there. Raises `Misuse` of the client, `Problem`.
        """
        key = make_secret() if secret is None else secret
        application = client.webhook_app(key, handler, **receiving)
        _ = self.topology
        self.line.post_to(url, key)
        return application

    def header(self) -> "Column":
        """Give the value of the header ``Acker-Anchors`` for rows that leave, by whatever ``ledger.emit`` gave."""
        return columns.header(self.options.topology)

    def _observation(self) -> str:
        """Name the metrics of a frame: two of one query must have two names."""
        self._frames += 1
        return "acker" if self._frames == 1 else f"acker-{self._frames}"


def _is_text(frame: "DataFrame", named: "str | Column") -> bool:
    return dict(frame.select(columns.column(named)).dtypes).popitem()[1] == "string"
