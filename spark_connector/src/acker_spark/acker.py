"""The acker as a Spark program sees it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import acker_client as client
from acker_client.config import SYSTEM_CLOCK, Clock
from acker_protocol.signature import make_secret
from pyspark.sql import functions as F

from acker_spark._batch import columns, keys, ownership, sinks, windows
from acker_spark._batch.anchors import all_rows, inactive_rows
from acker_spark._batch.batch_level import BatchFunction, check_function
from acker_spark._batch.client_base import _ClientBase
from acker_spark._batch.columns import ANCHORS, EDGE, MESSAGE, ROOT, SEVERAL, TAG
from acker_spark._batch.row_level import RowFunction
from acker_spark._batch.run import check_query_id
from acker_spark.errors import UsageError
from acker_spark.headers import read_header, write_header, write_kafka_headers
from acker_spark.options import SparkAckerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from acker_client import Completion
    from pyspark.sql import Column, DataFrame

    from acker_spark._batch import batch_level, row_level
    from acker_spark._batch.run import BatchReport


class SparkAcker(_ClientBase):
    """The acker at ``url``, for a spout task of one topology, which is created if it does not exist. ::

        acker = SparkAcker(url="http://127.0.0.1:8700", topology="sentences", spout_task="reader")

        def count_words(batch, batch_id, collector):
            collector.fail(batch.where("sentence like '%cow%'"), "no cows")

        (acker.root(lines, message_id="id").writeStream
            .foreachBatch(acker.foreach_batch(count_words)).option("checkpointLocation", …).start())

    Times are in seconds; `SparkAckerOptions` describes each option, and `InvalidOptions` names all that are invalid.
    ``on_batch`` gets a `BatchReport` when a batch has been shipped. Nothing is sent before the first batch runs.
    ``transport`` and ``clock`` are for tests.
    """

    def __init__(
        self,
        *,
        url: str,
        topology: str,
        spout_task: str,
        token: str | None = None,
        message_timeout: float | None = None,
        dedupe_window: float = 3_600.0,
        retention: float = 3_600.0,
        heartbeat_for: float = 21_600.0,
        retry_timeout: float = 240.0,
        startup_timeout: float | None = 5.0,
        fail_raised: bool = False,
        query_id: str | None = None,
        on_batch: "Callable[[BatchReport], object] | None" = None,
        transport: "httpx.BaseTransport | None" = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        options = SparkAckerOptions(
            url=url,
            topology=topology,
            spout_task=spout_task,
            token=token,
            message_timeout=message_timeout,
            dedupe_window=dedupe_window,
            retention=retention,
            heartbeat_for=heartbeat_for,
            retry_timeout=retry_timeout,
            startup_timeout=startup_timeout,
            fail_raised=fail_raised,
            query_id=query_id,
        )
        super().__init__(options, on_batch=on_batch, transport=transport, clock=clock)
        self._observed_frames = 0

    def root(
        self, frame: "DataFrame", message_id: "str | Column", *, attempt: "str | Column | None" = None
    ) -> "DataFrame":
        """Make each message of a frame a root, which its batch emits.

        The root id is a hash of topology, spout task, message id and attempt: with another ``attempt`` a replayed
        message is a new root. Of rows with the same root in a batch one is kept. Rows that are filtered out
        before their batch, or held back by a window or a join, are not emitted. A query's progress has the number of
        roots in ``observedMetrics["acker"].roots`` (``acker-2`` for a second frame). The batches of another spout
        task refuse these rows. Raises `QueryIdRequired` under Spark Connect, `UsageError` for a message id that the
        plan makes anew when a batch runs again.
        """
        self._check(frame)
        keys.check_stable(frame, *([message_id] if attempt is None else [message_id, attempt]), caller="root()")
        message = columns.column(message_id).cast("string")
        parts = () if attempt is None else (columns.column(attempt),)
        rooted = frame.withColumns(
            {
                MESSAGE: ownership.with_owner(message, self.options),
                ROOT: columns.hashed(self.options.topology, self.options.spout_task, message, *parts),
                TAG: columns.tag(frame),
            }
        )
        counted = rooted.observe(self._observation(), F.count(F.lit(1)).alias("roots"))
        return counted.withColumn(EDGE, columns.hashed(F.col(ROOT), "edge"))

    def received(
        self,
        frame: "DataFrame",
        *,
        headers: "str | Column | None" = None,
        root: "str | Column" = ROOT,
        edge: "str | Column" = EDGE,
    ) -> "DataFrame":
        """Take rows that another system or query has emitted; each edge is acked once, however often it is delivered.

        ``headers`` is the column with the header ``Acker-Anchors``: Kafka's ``headers`` (``includeHeaders``), a map
        from name to value, or the value itself. A row may have several anchors, all are acked; a row without the header
        is not tracked; an invalid header ends the query. Without ``headers`` the anchor is in the columns ``root`` and
        ``edge``, each ``bigint`` or 16 hex digits. Raises `QueryIdRequired` under Spark Connect, `UsageError`.
        """
        self._check(frame)
        if headers is not None:
            if isinstance(root, str) and isinstance(edge, str) and (root, edge) == (ROOT, EDGE):
                return self._received_with_headers(frame, headers)
            raise UsageError("received() takes either headers= or root= and edge=")
        named = columns.with_names(frame, root, edge)
        return named.withColumns(
            {
                ROOT: columns.identity(columns.column(root), is_text=columns.type_of(named, root) == "string"),
                EDGE: columns.identity(columns.column(edge), is_text=columns.type_of(named, edge) == "string"),
                TAG: columns.tag(named),
                MESSAGE: F.lit(None).cast("boolean"),
            }
        )

    def foreach_batch(self, function: "batch_level.Function", *rest: Any) -> BatchFunction:
        """Return the argument of ``foreachBatch`` for ``function(batch, batch_id, collector)``.

        When the function returns, the rows of the batch are acked, but for those that it declared failed or emitted
        with the `BatchCollector`. Raises `UsageError` for a function that does not take these arguments.
        """
        check_function(function, *rest, method="foreach_batch", parameters="batch, batch_id, collector")
        return BatchFunction(acker=self, function=function)

    def foreach_rows(self, function: "row_level.Function", *rest: Any) -> RowFunction:
        """Return the argument of ``foreachBatch`` for ``function(rows, batch_id)``, at row level.

        The function gets the active rows, without the connector's columns; when it returns, all rows are acked. Raises
        `UsageError` for a function that does not take these arguments.
        """
        check_function(function, *rest, method="foreach_rows", parameters="rows, batch_id")
        return RowFunction(acker=self, function=function, ends=all_rows)

    def forward_rows(self, function: "row_level.Function", *rest: Any) -> RowFunction:
        """As `foreach_rows`, for rows that leave with their anchors and are acked where they arrive.

        The batch acks the rows that were filtered out, and fails those that failed.
        """
        check_function(function, *rest, method="forward_rows", parameters="rows, batch_id")
        return RowFunction(acker=self, function=function, ends=inactive_rows, kept_columns=(ROOT, EDGE, ANCHORS))

    def window_rows(
        self, frame: "DataFrame", time: str, duration: str, *, slide: str | None = None, delay: str = "0 seconds"
    ) -> "DataFrame":
        """Add the column ``window``, with a watermark ``delay`` behind on the column ``time``.

        Group by the window and put `functions.collect_anchors` into ``agg``: what a window emits carries the anchors of
        all its rows. Raises `UsageError` for a window that is open for longer than the message timeout.
        """
        timeout = self.options.message_timeout or self.topology.message_timeout_ms / 1000
        windows.check_window(duration, delay, message_timeout=timeout)
        return windows.windowed(frame, time, duration, slide, delay)

    def header(self, frame: "DataFrame | None" = None) -> "Column":
        """Return the value of the header ``Acker-Anchors`` for rows that leave, from ``emit`` or `forward_rows`.

        Rows that have several anchors (from ``received(headers=)``, a join or a window) need their ``frame``.
        """
        return write_header(self.options.topology, frame)

    def kafka_headers(self, frame: "DataFrame | None" = None, *, others: "str | Column | None" = None) -> "Column":
        """Return Kafka's column ``headers`` for rows that leave, with the header ``Acker-Anchors``.

        ``frame`` as in `header`; ``others`` are headers to keep, such as those of the row that came in, whose anchors
        are left out.
        """
        return write_kafka_headers(self.options.topology, frame, others)

    def completions(
        self,
        *,
        until: float | None = None,
        stop: "Callable[[], bool] | None" = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> "Iterator[Completion]":
        """Read the completions of this spout task by polling; one is released when the loop body for it has ended.

        The loop ends after ``until`` seconds, when ``stop()`` is true, or after `close`, each before the next poll. A
        spout task has one reader: this, `subscribe`, `webhook`, ``format("acker")`` or a client elsewhere.
        """
        return self.listener.poll(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)

    def subscribe(
        self,
        redis_url: str,
        *,
        until: float | None = None,
        stop: "Callable[[], bool] | None" = None,
        page_size: int = 1_000,
    ) -> "Iterator[Completion]":
        """As `completions`, as the acker's Redis publishes them; those that pub/sub loses are read from the mailbox.

        Needs ``acker-client[redis]``. After `close` the loop ends within a second.
        """
        return self.listener.subscribe(redis_url, until=until, stop=stop, page_size=page_size)

    def webhook(
        self,
        url: str,
        handler: "Callable[[Completion], Any] | None" = None,
        *,
        on_ack: "Callable[[str], Any] | None" = None,
        on_fail: "Callable[[str], Any] | None" = None,
        secret: str | None = None,
        timeout: float = 20.0,
        tolerance: float = 300.0,
        max_body_bytes: int = 16_777_216,
    ) -> Any:
        """Register ``url`` as the webhook of this spout task, and return the ASGI application to serve there.

        The arguments are those of `acker_client.webhook_app`; without ``secret`` a new one is drawn at each start. The
        topology is created if it does not exist. Raises `UsageError` of the client, `ServiceError`.
        """
        key = make_secret() if secret is None else secret
        application = client.webhook_app(
            key,
            handler,
            on_ack=on_ack,
            on_fail=on_fail,
            timeout=timeout,
            tolerance=tolerance,
            max_body_bytes=max_body_bytes,
        )
        _ = self.topology
        self.sender.set_webhook(url, key)
        return application

    def _check(self, frame: "DataFrame") -> None:
        check_query_id(frame, self.options.query_id)
        sinks.guard(frame, own=(BatchFunction, RowFunction))

    def _received_with_headers(self, frame: "DataFrame", headers: "str | Column") -> "DataFrame":
        """Add the anchors; a row without any has a random edge, so that ``dropDuplicates`` by anchor keeps it."""
        first = F.get(F.col(ANCHORS), F.lit(0))
        anchored = frame.withColumn(ANCHORS, read_header(frame, headers, self.options.topology))
        return anchored.withColumns(
            {
                ROOT: first["root"],
                EDGE: F.coalesce(first["edge"], columns.tag(frame)),
                TAG: columns.tag(frame),
                MESSAGE: F.lit(None).cast(SEVERAL),
            }
        )

    def _observation(self) -> str:
        """Return a name for the metrics of a frame: two frames of one query need two names."""
        self._observed_frames += 1
        return "acker" if self._observed_frames == 1 else f"acker-{self._observed_frames}"
