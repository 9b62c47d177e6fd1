"""A root that is being emitted: its first edges, and its init."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from acker_protocol.anchors import from_ids, header_prefix, write_header
from acker_protocol.ids import SPOUT_EDGE, draw_id, format_id
from acker_protocol.operations import EndOn, Init, Operation
from acker_protocol.tracing import is_marked, mark
from acker_protocol.wire import fields

from acker_client import propagate
from acker_client._core import validate
from acker_client._core.hot_path import EdgeSet, add_child
from acker_client._core.names import valid_name
from acker_client.errors import TupleClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.anchors import Anchors


EndOnName = Literal["first_fail", "all_ended"]
"""What ends a root: its first fail, or that all of its edges have ended, some of them perhaps failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitOptions:
    """What a root is emitted with; timeouts in milliseconds.

    ``message_id`` is the spout's own id of the message; without one the root is not tracked and nothing is sent. A
    timeout of None is the topology's; a progress timeout of 0 is none. ``trace``: the root is traced. ``traceparent``
    is W3C's header of that name, which the completion gives back. ``end_on`` is what ends the root, None for what the
    topology says.
    """

    message_id: str | None = None
    message_timeout_ms: int | None = None
    progress_timeout_ms: int | None = None
    trace: bool = False
    traceparent: str | None = None
    end_on: EndOn | None = None


def emit_options(
    message_id: str | None,
    *,
    message_timeout: float | None,
    progress_timeout: float | None,
    trace: bool = False,
    traceparent: str | None = None,
    end_on: "EndOnName | None" = None,
) -> EmitOptions:
    """Check what a program emits a root with; timeouts in seconds. Raises `UsageError`."""
    return EmitOptions(
        message_id=validate.checked("message_id", fields.message_id, message_id),
        message_timeout_ms=validate.milliseconds("message_timeout", message_timeout, fields.TIMEOUT_MS),
        progress_timeout_ms=validate.milliseconds("progress_timeout", progress_timeout, fields.TIMEOUT_MS, zero=True),
        trace=trace,
        traceparent=validate.checked("traceparent", fields.traceparent, traceparent),
        end_on=validate.checked("end_on", fields.end_on, end_on),
    )


class Root:
    """A root, open until its emit block ends; not for several threads at once.

    ``attempt`` is 1, and more where a replay emits its message again.
    """

    __slots__ = ("_around", "_edges", "_open", "_options", "attempt", "spout_task", "topology")

    def __init__(self, *, topology: str, spout_task: str, options: EmitOptions, attempt: int = 1) -> None:
        self.topology = topology
        self.attempt = attempt
        self.spout_task = spout_task
        self._options = options
        root_id = mark(draw_id()) if options.trace else draw_id()
        self._edges = EdgeSet(root_id, SPOUT_EDGE, spout_task)
        self._open = True
        self._around: propagate.AnchorParent | None = None

    def __str__(self) -> str:
        return f"root {self.root_id} of {self.spout_task!r} (message id {self.message_id!r})"

    @property
    def root_id(self) -> str:
        """The root id, as the service and the completions write it."""
        return format_id(self._edges.root_id)

    @property
    def message_id(self) -> str | None:
        """The spout's own id of the message."""
        return self._options.message_id

    @property
    def message_timeout(self) -> float | None:
        """Its message timeout in seconds, None for the topology's."""
        timeout_ms = self._options.message_timeout_ms
        return None if timeout_ms is None else timeout_ms / 1000

    @property
    def traceparent(self) -> str | None:
        """The traceparent that it was emitted with, which its completion gives back."""
        return self._options.traceparent

    @property
    def tracked(self) -> bool:
        """Whether it has a message id."""
        return self.message_id is not None

    def anchor(self, key: str | None = None) -> "Anchors":
        """Anchor a message for one consumer. Raises `DuplicateKey` and `TupleClosed`.

        With a ``key`` its edge id is derived from the root id and the key, else it is random.
        """
        return from_ids(self.topology, tuple(self._add_child(key)))

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a message for one consumer, and give its header; empty for a root that is not tracked."""
        return write_header(header_prefix(self.topology), self._add_child(key))

    def init_operation(self, is_traced: "Callable[[int], bool]" = is_marked) -> "list[Operation]":
        """Return the init, which names its edges if the root is traced; none for a root that is not tracked."""
        return [
            Init(
                root_id=edges.root_id,
                spout_task=self.spout_task,
                ack_val=edges.ack_val,
                outstanding=edges.outstanding,
                message_id=self._options.message_id,
                message_timeout_ms=self._options.message_timeout_ms,
                progress_timeout_ms=self._options.progress_timeout_ms,
                trace=self._options.trace or None,
                edges=tuple(edges.children) if is_traced(edges.root_id) else None,
                traceparent=self.traceparent,
                end_on=self._options.end_on,
            )
            for edges in self._parents()
        ]

    def begin_block(self) -> None:
        """Make it current, at the beginning of its emit block."""
        self._around = propagate.enter(self)

    def end_block(self) -> None:
        """Make current what was so before, at the end of its emit block, and take no more children."""
        propagate.leave(self._around)
        self._open = False

    def _add_child(self, key: str | None) -> list[int]:
        if not self._open:
            raise TupleClosed(f"{self} has left its emit block and cannot be anchored to any more")
        return add_child(self._parents(), key=key)

    def _parents(self) -> "Sequence[EdgeSet]":
        return [self._edges] if self.tracked else []


def spout_task_name(name: str, *, host: str, process: str) -> str:
    """Name the spout task of this process: the spout's name, the host and the process, cut to a name's length."""
    return valid_name(f"{name}-{host}", suffix=f"-{process}")
