"""What the histories of all clients say of each root: the events on it, and the completions that were told of it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from acker_protocol.operations import REFUSED, Operation, OperationState
from acker_protocol.wire.operations import VERBS, decode_batch, decode_json, decode_operation
from acker_protocol.wire.packed import CONTENT_TYPE as PACKED
from acker_protocol.wire.packed import decode_packed

from tests.histories.records import Answered, Began, Record, Sent, Told, read

MAX_OPERATIONS = 1_000_000
OK, UNKNOWN = 200, frozenset({429, 500, 502, 503, 504})
"""The status of an answer that tells states, and those of answers that may leave the effect unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one attempt of a request asked of one root, and what it was answered.

    Times are milliseconds of the wall clock. ``request`` is the same in all attempts of a request with a key, and of no
    other request. ``answered_ms`` is None where no answer came that tells the states; it may have had its effect at any
    time since it was sent, or none. ``replayed`` is None where the answer does not say for this root alone.
    """

    request: int
    operations: tuple[Operation, ...]
    sent_ms: float
    answered_ms: float | None = None
    states: tuple[OperationState | None, ...] = ()
    has_key: bool = True
    replayed: bool | None = None


@dataclass(slots=True, kw_only=True)
class RootHistory:
    """All events on a root of a topology, and its completions as they were told, each once."""

    topology: str
    root_id: int
    events: list[Event] = field(default_factory=list)
    completions: dict[str, dict[str, Any]] = field(default_factory=dict)
    tellings: int = 0

    def tell(self, completion: dict[str, Any]) -> None:
        """Add a completion, unless the same one was told before."""
        self.tellings += 1
        self.completions.setdefault(json.dumps(completion, sort_keys=True), completion)


@dataclass(slots=True, kw_only=True)
class Histories:
    """What all histories say; counts of what was asked, each operation once however often its request was sent."""

    roots: dict[tuple[str, int], RootHistory] = field(default_factory=dict)
    operations: int = 0
    requests: int = 0
    attempts: int = 0
    unknown: int = 0
    """Attempts without an answer that tells states."""
    _requests: dict[tuple[object, ...], int] = field(default_factory=dict)

    def root(self, topology: str, root_id: int) -> RootHistory:
        """Return the history of a root, which begins with the first mention of it."""
        found = self.roots.get((topology, root_id))
        if found is None:
            found = self.roots[topology, root_id] = RootHistory(topology=topology, root_id=root_id)
        return found

    def add(self, records: Iterable[Record]) -> None:
        """Add the history of one client."""
        wall_ms, sent = 0.0, dict[int, Sent]()
        for record in records:
            match record:
                case Began():
                    wall_ms = record.wall_ms
                case Sent():
                    sent[record.number] = record
                case Answered():
                    self._add_exchange(sent.pop(record.number), record, wall_ms)
                case Told():
                    self._tell(json.loads(record.body))
        for unanswered in sent.values():
            self._add_exchange(unanswered, None, wall_ms)

    def _add_exchange(self, sent: Sent, answered: Answered | None, wall_ms: float) -> None:
        path = urlsplit(sent.target).path.split("/")
        if path[4:5] == ["spouts"] and path[6:] == ["completions"] and sent.method == "GET":
            if answered is not None and answered.status == OK:
                page = json.loads(answered.body)
                self._tell({"topology": path[3], "completions": page["completions"]})
        elif len(path) == len(("", "v1", "topologies", "", "")) and path[4] in (*VERBS, "batch"):
            self._add_operations(path[3], path[4], sent, answered, wall_ms)

    def _tell(self, told: dict[str, Any]) -> None:
        for completion in told["completions"]:
            self.root(told["topology"], int(completion["root_id"], 16)).tell(completion)

    def _add_operations(self, topology: str, verb: str, sent: Sent, answered: Answered | None, wall_ms: float) -> None:
        operations = _operations(verb, sent)
        states = _states(answered, len(operations)) if answered is not None else ()
        request, is_new = self._request(topology, verb, sent)
        self.attempts += 1
        self.requests += is_new
        self.operations += len(operations) if is_new else 0
        self.unknown += not states
        replayed = answered.replayed if states and answered is not None else None
        by_root: dict[int, list[int]] = {}
        for index, operation in enumerate(operations):
            by_root.setdefault(operation.root_id, []).append(index)
        for root_id, indexes in by_root.items():
            event = Event(
                request=request,
                operations=tuple(operations[index] for index in indexes),
                sent_ms=sent.at_ns / 1e6 + wall_ms,
                answered_ms=answered.at_ns / 1e6 + wall_ms if answered is not None and states else None,
                states=tuple(states[index] for index in indexes) if states else (),
                has_key=sent.key is not None,
                # one that only some shards knew is answered as new
                replayed=True if replayed else (replayed if len(by_root) == 1 else None),
            )
            self.root(topology, root_id).events.append(event)

    def _request(self, topology: str, verb: str, sent: Sent) -> tuple[int, bool]:
        """Return the number of a request, and whether this is its first attempt."""
        number = len(self._requests)
        if sent.key is None:
            self._requests[None, number] = number
            return number, True
        return (found := self._requests.setdefault((topology, verb, sent.key, sent.body), number)), found == number


def read_histories(paths: Sequence[Path]) -> Histories:
    """Read the histories of all clients of a run."""
    histories = Histories()
    for path in paths:
        histories.add(read(path))
    return histories


def _operations(verb: str, sent: Sent) -> list[Operation]:
    if sent.content_type == PACKED:
        return decode_packed(sent.body, max_operations=MAX_OPERATIONS)
    document = decode_json(sent.body)
    return (
        decode_batch(document, max_operations=MAX_OPERATIONS) if verb == "batch" else [decode_operation(verb, document)]
    )


def _states(answered: Answered, count: int) -> tuple[OperationState | None, ...]:
    """Return the states that an answer tells, None for one that it only tells was accepted.

    Returns none at all for an answer that leaves the effect unknown. Raises AssertionError for one that no client of
    these histories may get.
    """
    document = _document(answered.body)
    if answered.status == OK and "accepted" in document and "results" not in document:
        refused = {each["index"]: OperationState(each["state"]) for each in document["exceptions"]}
        return tuple(refused.get(index) for index in range(count))
    if answered.status == OK:
        states = document["results"] if "results" in document else [document["state"]]
        assert len(states) == count, f"{count} operations were answered with {len(states)} states"
        return tuple(OperationState(state) for state in states)
    if document.get("code") in REFUSED:
        return (OperationState(document["code"]),)
    assert answered.status in UNKNOWN, f"answered {answered.status}: {answered.body[:500]!r}"
    return ()


def _document(body: bytes) -> dict[str, Any]:
    """Read an answer; one that is no JSON was made by nobody who knows the states."""
    try:
        return dict(json.loads(body))
    except ValueError:
        return {}
