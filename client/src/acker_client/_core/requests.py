"""The requests of the client: path, bytes and idempotency key, frozen before the first attempt."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode

from acker_protocol import routes
from acker_protocol.errors import UnknownSpout, UnknownTopology
from acker_protocol.ids import format_id
from acker_protocol.operations import Operation, OperationState
from acker_protocol.values import value
from acker_protocol.wire.operations import encode_batch, encode_operation
from acker_protocol.wire.packed import CONTENT_TYPE, MAX_BYTES, NotPackable, encode_packed, fits

MAX_OPS = 10_000

PAGE = 1_000
"""How many items of a list are read at once."""

WEBHOOK_TIMEOUT_S = 30.0
"""How long the acker waits for a webhook's answer."""


@runtime_checkable
class Packable(Protocol):
    """Operations that pack themselves, as `BufferedOperations` do."""

    def packed(self) -> bytes:
        """Write them as a packed batch."""


_write_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@value
class Request:
    """One request. Every attempt sends the same bytes; ``key`` is None where a repeat changes nothing.

    ``operations`` are those in ``body``; ``done_code`` is the error by which a repeated deletion says that it was done
    before. ``wait_s`` is how long a long poll lets the service wait; ``limit_s`` bounds an attempt, where that is
    shorter than the client's ``request_timeout``: as a whole, but for httpx in threads, of which it bounds each step.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    key: str | None = None
    operations: Sequence[Operation] = ()
    done_code: str = ""
    wait_s: float = 0.0
    limit_s: float | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that this request adds."""
        headers = {"Content-Type": self.content_type} if self.body else {}
        return headers if self.key is None else headers | {routes.IDEMPOTENCY_KEY: self.key}

    def timeout_s(self, configured_s: float) -> float:
        """Return the seconds that each step may take, or all of them together where ``limit_s`` is given."""
        return configured_s + self.wait_s if self.limit_s is None else min(configured_s, self.limit_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """One operation, and the state that the service answered."""

    operation: Operation
    state: OperationState


def write_operations(topology: str, operations: Sequence[Operation]) -> list[Request]:
    """Freeze operations into requests, in order: one alone as a single call in JSON, more as packed batches.

    A batch with what the packed form has no field for, a traceparent, is sent in JSON.
    """
    if len(operations) == 1:
        return [_single(topology, operations[0])]
    parts = (operations[at : at + MAX_OPS] for at in range(0, len(operations), MAX_OPS))
    return [request for part in parts for request in _batches(topology, part)]


def read_topology(topology: str) -> Request:
    """Read a topology."""
    return Request(method="GET", path=routes.topology(topology))


def read_root(topology: str, root_id: str, *, wait_ms: int = 0) -> Request:
    """Read a root, after waiting for its end."""
    path = routes.root(topology, root_id)
    return Request(method="GET", path=f"{path}?wait_ms={wait_ms}" if wait_ms else path, wait_s=wait_ms / 1000)


def read_root_states(topology: str, root_ids: Iterable[int], *, limit_s: float) -> Request:
    """Read the states of roots; it changes nothing."""
    body = _json({"root_ids": list(map(format_id, root_ids))})
    return Request(method="POST", path=routes.root_states(topology), body=body, limit_s=limit_s)


def read_spout(topology: str, spout_task: str) -> Request:
    """Read a spout task."""
    return Request(method="GET", path=routes.spout(topology, spout_task))


def list_failures(topology: str, **query: Any) -> Request:
    """Read a page of failures; None in the query is left out."""
    return Request(method="GET", path=_with_query(f"{routes.topology(topology)}/failures", query))


def force_fail(topology: str, root_id: str, *, reason: str | None) -> Request:
    """Fail a root as operator; a repeat finds it finished."""
    document = {} if reason is None else {"reason": reason}
    return Request(method="POST", path=routes.force_fail(topology, root_id), body=_json(document))


def list_spouts(topology: str) -> Request:
    """Read all spout tasks of a topology."""
    return Request(method="GET", path=routes.spouts(topology))


def delete_spout(topology: str, spout_task: str, *, discard: bool) -> Request:
    """Delete a spout task; a repeat finds nothing."""
    path = _with_query(routes.spout(topology, spout_task), {"discard": "true" if discard else None})
    return Request(method="DELETE", path=path, done_code=UnknownSpout.code)


def set_callback(topology: str, spout_task: str, callback: dict[str, Any] | None) -> Request:
    """Say where the completions of a spout task are delivered; None: readers pull them. A repeat changes nothing."""
    return Request(method="PUT", path=routes.spout(topology, spout_task), body=_json({"callback": callback}))


def act_on_spout(path: str, *, wait_s: float = 0.0) -> Request:
    """Pause, resume or test a callback, or rotate its secret, by the path of that act."""
    return Request(method="POST", path=path, wait_s=wait_s)


def list_dead_letters(topology: str, spout_task: str, **query: Any) -> Request:
    """Read a page of dead letters; None in the query is left out."""
    return Request(method="GET", path=_with_query(routes.dead_letters(topology, spout_task), query))


def act_on_dead_letters(topology: str, spout_task: str, act: str, chosen: dict[str, Any]) -> Request:
    """Replay or discard the dead letters that are chosen; a repeat finds none of them."""
    path = f"{routes.dead_letters(topology, spout_task)}/{act}"
    return Request(method="POST", path=path, body=_json(chosen))


def put_topology(topology: str, document: dict[str, Any]) -> Request:
    """Create or change a topology; a repeat changes nothing."""
    return Request(method="PUT", path=routes.topology(topology), body=_json(document))


def delete_topology(topology: str, *, force: bool, discard: bool) -> Request:
    """Delete a topology; a repeat finds nothing."""
    query = {name: "true" if value else None for name, value in {"force": force, "discard": discard}.items()}
    return Request(method="DELETE", path=_with_query(routes.topology(topology), query), done_code=UnknownTopology.code)


def make_ephemeral(topology: str, spout_task: str) -> Request:
    """Register a spout task that the service removes when it is no longer used; a repeat changes nothing."""
    return Request(method="PUT", path=routes.spout(topology, spout_task), body=_json({"ephemeral": True}))


def read_completions(
    topology: str, spout_task: str, *, after: str | None, limit: int, wait_ms: int, until: str | None = None
) -> Request:
    """Read completions after a cursor (None: from the oldest that is not released), waiting for the first.

    With ``until``, read only those up to that cursor, without waiting.
    """
    cursors: dict[str, Any] = {"after": after, "until": until}
    path = _with_query(routes.completions(topology, spout_task), {"limit": limit, "wait_ms": wait_ms} | cursors)
    return Request(method="GET", path=path, wait_s=wait_ms / 1000)


def release(topology: str, spout_task: str, *, cursor: str) -> Request:
    """Release completions up to a cursor."""
    return _post(routes.release(topology, spout_task), _json({"cursor": cursor}))


def _single(topology: str, operation: Operation) -> Request:
    document = encode_operation(operation)
    return _post(routes.operation(topology, document.pop("op")), _json(document), [operation])


def _batches(topology: str, operations: Sequence[Operation]) -> list[Request]:
    """Halve a batch until its bytes are within the limit, packed and unpacked; ten thousand long message ids are not.

    The service counts a text that many operations share once for each of them.
    """
    path = routes.operation(topology, "batch")
    try:
        body = operations.packed() if isinstance(operations, Packable) else encode_packed(operations)
    except NotPackable:
        body = encode_batch(operations)
        if len(body) <= MAX_BYTES:
            return [_post(path, body, operations)]
    else:
        if fits(body):
            return [_post(path, body, operations, content_type=CONTENT_TYPE)]
    middle = len(operations) // 2
    return _batches(topology, operations[:middle]) + _batches(topology, operations[middle:])


def _post(
    path: str, body: bytes, operations: Sequence[Operation] = (), *, content_type: str = "application/json"
) -> Request:
    key = os.urandom(16).hex()
    return Request(method="POST", path=path, body=body, content_type=content_type, key=key, operations=operations)


def _with_query(path: str, query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _json(document: dict[str, Any]) -> bytes:
    return _write_json(document).encode()
