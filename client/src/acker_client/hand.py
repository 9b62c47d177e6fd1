"""Knows what an acker does without sending anything, the same for the sync and the async one."""

import os
import secrets
import socket
from typing import TYPE_CHECKING

from acker_client import arguments, exits, roots, thread_driver, verdicts
from acker_client.anchoring import Anchors, Headers, read_anchors
from acker_client.counts import Counts
from acker_client.emitting import Emitting
from acker_client.errors import Misuse
from acker_client.exchange import Exchange
from acker_client.flows import Flows
from acker_client.tuples import Tuple, anchor_child

if TYPE_CHECKING:
    from acker_client.flows import OnError, OnReject
    from acker_client.spout_tasks import SpoutTask
    from acker_client.terms import Terms

_LIFE = secrets.token_hex(4)
"""Tells this process from one in another container that has its host name and process id: each must read its own."""


class Hand:
    """What `Acker` and `AsyncAcker` have in common."""

    def __init__(self, topology: str, terms: "Terms", on_reject: "OnReject | None") -> None:
        self.topology: str = arguments.name("topology", topology)
        exchange = Exchange(topology=self.topology, terms=terms)
        self._flows = Flows(exchange, on_reject=on_reject or verdicts.warn)
        self._emitting = Emitting(self._flows)
        exits.remember(self)

    def __del__(self) -> None:
        if hasattr(self, "_flows") and not self.settled:
            exits.keep(self)

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way, and nothing that could not be delivered is to be told."""
        return self._flows.lingering.outbox.settled

    @property
    def counts(self) -> Counts:
        """What it has counted."""
        outbox = self._flows.lingering.outbox
        return Counts(on_their_way=len(outbox), undelivered=outbox.undelivered, rejected=self._flows.rejected)

    def anchor(self, *tuples: Tuple, name: str | None = None) -> Anchors:
        """Anchor one child to all these tuples, an edge in each tree; with a name the edge ids are derived.

        Raises `NameTaken`, `TupleDone`, `TooManyAnchors`, and then no tuple has a new child.
        """
        return anchor_child(tuples, name=name)

    def tuple(self, headers: Headers, *, component: str) -> Tuple:
        """Take a tuple into the hand by the headers of its message; without the header it is not tracked.

        Raises `WrongHeader` for one that cannot be read or is of another topology.
        """
        anchors = read_anchors(headers, topology=self.topology)
        return Tuple(anchors=anchors, component=arguments.name("component", component))

    def start_anew(self) -> None:
        """Be empty in the child of a fork: what the parent has gathered, the parent sends."""
        self._flows.lingering.outbox.start_anew()
        self._emitting.start_anew()
        self._forget_parent()

    def leave(self) -> None:
        """Send what lingers, at the end of the interpreter. Raises `Undelivered`."""
        self._flows.lingering.end()
        if not self.settled:
            self._last_driver().run(self._flows.flush())

    def _forget_parent(self) -> None:
        raise NotImplementedError

    def _last_driver(self) -> thread_driver.Driver:
        raise NotImplementedError

    def _tuple_for(self, headers: Headers, component: str, on_error: "OnError") -> Tuple:
        if on_error not in ("fail", "redeliver"):
            raise Misuse(f"on_error must be 'fail' or 'redeliver', not {on_error!r}")
        self._flows.lingering.outbox.tell()
        return self.tuple(headers, component=component)

    def _spout_task(self, name: str, *, shared: bool) -> "SpoutTask":
        arguments.name("the spout's name", name)
        process = f"{os.getpid()}-{_LIFE}"
        own = name if shared else roots.spout_task(name, host=socket.gethostname(), process=process)
        return self._emitting.task(own, own=not shared)
