"""Knows what an acker does without sending anything, the same for the sync and the async one."""

import os
import secrets
import socket
from typing import TYPE_CHECKING

from acker_protocol.wire import fields

from acker_client import roots
from acker_client.anchoring import Anchors, Headers, read_anchors
from acker_client.errors import Misuse, checked
from acker_client.exchange import Exchange
from acker_client.flows import Flows
from acker_client.tuples import Tuple, anchor_child

if TYPE_CHECKING:
    from acker_client.flows import OnError
    from acker_client.terms import Terms

_LIFE = secrets.token_hex(4)
"""Tells this process from one in another container that has its host name and process id: each must read its own."""


class Hand:
    """What `Acker` and `AsyncAcker` have in common."""

    def __init__(self, topology: str, terms: "Terms") -> None:
        self.topology: str = checked("topology", fields.name, topology)
        self._flows = Flows(Exchange(topology=self.topology, terms=terms))

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
        return Tuple(anchors=anchors, component=checked("component", fields.name, component))

    def _tuple_for(self, headers: Headers, component: str, on_error: "OnError") -> Tuple:
        if on_error not in ("fail", "redeliver"):
            raise Misuse(f"on_error must be 'fail' or 'redeliver', not {on_error!r}")
        return self.tuple(headers, component=component)

    def _spout_task(self, name: str, *, shared: bool) -> str:
        checked("the spout's name", fields.name, name)
        return name if shared else roots.spout_task(name, host=socket.gethostname(), process=f"{os.getpid()}-{_LIFE}")
