"""Knows a root while it is being emitted: its first edges, and the init that tells of them."""

import re
from typing import TYPE_CHECKING, TypedDict

from acker_protocol.ids import SPOUT_EDGE, draw_id, format_id
from acker_protocol.operations import Init, Operation
from acker_protocol.wire import fields

from acker_client import arguments
from acker_client.anchoring import Anchor, Anchors
from acker_client.errors import TupleDone, checked
from acker_client.parents import Parent, bear_child

if TYPE_CHECKING:
    from collections.abc import Sequence

_timeout = fields.integer(fields.TIMEOUT_MS)


class Timeouts(TypedDict, total=False):
    """The timeouts of a root; one left out is the topology's, and ``progress_timeout_ms`` 0 is none."""

    message_timeout_ms: int | None
    progress_timeout_ms: int | None


class Emission(Timeouts, total=False):
    """What a root is emitted with.

    ``message_id`` is the spout's own name for the message; without one the root is not tracked and nothing is sent.
    """

    message_id: str | None


class Root:
    """One root in the hand of its spout, open until its emit block is left; not for several threads at once.

    ``attempt`` is 1, and more where a replay emits its message again.
    """

    __slots__ = ("_emission", "_open", "_parent", "attempt", "spout_task", "topology")

    def __init__(self, *, topology: str, spout_task: str, emission: Emission, attempt: int = 1) -> None:
        self.topology = topology
        self.attempt = attempt
        self.spout_task = spout_task
        self._emission = _checked(emission)
        self._parent = Parent(anchor=Anchor(root_id=draw_id(), edge_id=SPOUT_EDGE), component=spout_task)
        self._open = True

    def __str__(self) -> str:
        return f"root {self.root_id} of {self.spout_task!r} (message id {self.message_id!r})"

    @property
    def root_id(self) -> str:
        """The root id, as the service and the completions write it."""
        return format_id(self._parent.anchor.root_id)

    @property
    def message_id(self) -> str | None:
        """The spout's own name for the message."""
        return self._emission.get("message_id")

    @property
    def message_timeout_ms(self) -> int | None:
        """Its message timeout, None where that is the topology's."""
        return self._emission.get("message_timeout_ms")

    @property
    def tracked(self) -> bool:
        """Whether it has a message id."""
        return self.message_id is not None

    def anchor(self, name: str | None = None) -> Anchors:
        """Give one consumer's edge; with a name its id is derived. Raises `NameTaken` and `TupleDone`."""
        if not self._open:
            raise TupleDone(f"{self} has left its emit block and cannot be anchored to any more")
        return bear_child(self._parents(), topology=self.topology, name=name)

    def take_init(self) -> "list[Operation]":
        """Give the init, none where nothing is tracked; for an acker, it sends nothing."""
        return [
            Init(
                root_id=parent.anchor.root_id,
                spout_task=self.spout_task,
                ack_val=parent.ack_val,
                outstanding=parent.outstanding,
                **self._emission,
            )
            for parent in self._parents()
        ]

    def close(self) -> None:
        """Take no more children."""
        self._open = False

    def _parents(self) -> "Sequence[Parent]":
        return [self._parent] if self.tracked else []


def spout_task(name: str, *, host: str, process: str) -> str:
    """Name the one reader that this process is: the spout's name, the host and the process, cut to a name's length."""
    mine = f"-{process}"
    return f"{name}-{re.sub('[^A-Za-z0-9._-]', '-', host)}"[: 128 - len(mine)] + mine


def _checked(emission: Emission) -> Emission:
    arguments.known(emission, Emission.__annotations__)
    return {
        "message_id": checked("message_id", fields.message_id, emission.get("message_id")),
        "message_timeout_ms": checked("message_timeout_ms", _timeout, emission.get("message_timeout_ms")),
        "progress_timeout_ms": checked(
            "progress_timeout_ms", fields.allow_zero(_timeout), emission.get("progress_timeout_ms")
        ),
    }
