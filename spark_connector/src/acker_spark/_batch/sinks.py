"""Refuses a sink that takes rows with anchors and tells the acker nothing.

Roots begin and edges are acked in a function of the connector only. Spark has no place to say so: a listener hears of a
query and cannot raise in it, and a batch is planned before its function is called, so no expression can know who calls.
PySpark makes the writers of a frame in ``writeStream``, ``write`` and ``writeTo``: root() and received() replace these
when they are first called. No row, and no batch of a function of the connector, costs more for it.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from acker_spark._batch import kept
from acker_spark._batch.columns import MESSAGE
from acker_spark._batch.plan import Plan
from acker_spark._batch.running import RunningQuery
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INSTEAD = (
    "so no root would begin and no edge would be acked. Give foreachBatch a function of the connector, as in "
    "writeStream.foreachBatch(acker.foreach_batch(f)) or acker.foreach_rows(f), and write the rows in f"
)
_guard = Lock()
_guarded: set[type] = set()
"""The classes of frames whose writers were replaced."""
_running: list["Work"] = []
"""What works on batches in this process."""


@dataclass(slots=True, eq=False)
class Work:
    """A function at work on a batch: one of the connector, or one that has to call it."""

    run_id: str | None
    """Of its query; None where Spark does not show it."""
    is_tracked: bool = False
    """Whether a function of the connector was called with the batch."""


@contextmanager
def at_work(query: RunningQuery | None) -> Iterator[Work]:
    """Run a block that works on a batch of a query; it may write rows with anchors."""
    work = Work(query.run_id if query else None)
    _running.append(work)
    try:
        yield work
    finally:
        _running.remove(work)


def note_tracked(query: RunningQuery | None) -> None:
    """Note that a function of the connector was called, in whatever thread, with a batch of this query."""
    run_id = query.run_id if query else None
    for work in tuple(_running):
        if None in (run_id, work.run_id) or run_id == work.run_id:
            work.is_tracked = True


@dataclass(frozen=True, slots=True)
class PlainFunction:
    """The argument of a plain ``foreachBatch``, which has to call a function of the connector for a batch with rows."""

    function: "Callable[[DataFrame, int], object]"

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch. Raises `UsageError`."""
        with at_work(RunningQuery.of(batch)) as work:
            self.function(batch, batch_id)
        if not work.is_tracked and not batch.isEmpty():
            raise UsageError(
                "this function of foreachBatch got rows from root() or received() and called no function of the "
                f"connector with them, {_INSTEAD}"
            )


def guard(frame: "DataFrame", *, own: tuple[type, ...]) -> None:
    """Check from now on what frames of this kind are written to; ``own`` are the functions of the connector."""
    kind = type(frame)
    with _guard:
        if kind in _guarded:
            return
        _guarded.add(kind)
        checked = {
            "writeStream": property(_stream_writer(kind, own)),
            "write": property(_batch_writer(kind)),
            "writeTo": _table_writer(kind),
        }
        for name, writer in checked.items():
            setattr(kind, name, writer)


def _stream_writer(kind: Any, own: tuple[type, ...]) -> "Callable[[DataFrame], Any]":
    make = kind.writeStream.fget

    @functools.wraps(make)
    def write_stream(frame: "DataFrame") -> Any:
        writer: Any = make(frame)
        if has_anchors(frame):
            kept.check_kept(frame)
            plain: Any = type(writer)
            writer.__class__ = _tracked(plain, own)
        return writer

    return write_stream


def _batch_writer(kind: Any) -> "Callable[[DataFrame], Any]":
    make = kind.write.fget

    @functools.wraps(make)
    def write(frame: "DataFrame") -> Any:
        _check_batch(frame, "write")
        return make(frame)

    return write


def _table_writer(kind: Any) -> "Callable[[DataFrame, str], Any]":
    make = kind.writeTo

    @functools.wraps(make)
    def write_to(frame: "DataFrame", table: str) -> Any:
        _check_batch(frame, "writeTo")
        return make(frame, table)

    return write_to


def _check_batch(frame: "DataFrame", name: str) -> None:
    """Raise `UsageError` for a batch that still has its anchors, unless a function of a batch is at work."""
    if not _running and MESSAGE in frame.columns and has_anchors(frame):
        raise UsageError(f"{name} would take rows from root() or received(), {_INSTEAD}")


def has_anchors(frame: "DataFrame") -> bool:
    """Return whether the rows of a frame come from root() or received()."""
    remote: Any = frame
    if hasattr(frame, "_jdf"):
        return Plan.of(frame).has_anchors()
    sent: bytes = remote._plan.to_proto(remote._session.client).SerializeToString()  # noqa: SLF001 - the plan of Connect
    return MESSAGE.encode() in sent


@functools.cache
def _tracked(kind: Any, own: tuple[type, ...]) -> Any:
    """Return the kind of a stream's writer that writes rows with anchors to a function of the connector only."""

    class TrackedStreamWriter(kind):  # type: ignore[misc]  # PySpark has two kinds
        """Raises `UsageError` when a query with another sink is started."""

        _is_tracked = False

        def foreachBatch(self, func: Any) -> Any:  # noqa: N802 - Spark's name
            self._is_tracked = True
            return super().foreachBatch(func if isinstance(func, own) else PlainFunction(func))

        def foreach(self, f: Any) -> Any:  # noqa: ARG002
            raise UsageError(f"foreach would take rows from root() or received(), {_INSTEAD}")

        def format(self, source: str) -> Any:
            self._is_tracked = False
            return super().format(source)

        def start(self, path: Any = None, format: Any = None, *rest: Any, **options: Any) -> Any:  # noqa: A002
            if format is not None or not self._is_tracked:
                raise UsageError(f"this sink would take rows from root() or received(), {_INSTEAD}")
            return super().start(path, format, *rest, **options)

        def toTable(self, tableName: str, *_: Any, **__: Any) -> Any:  # noqa: N802, N803
            raise UsageError(f"toTable({tableName!r}) would take rows from root() or received(), {_INSTEAD}")

    return TrackedStreamWriter
