"""Knows the requests: which address and which bytes, frozen with their idempotency key before the first try."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from acker_protocol import routes
from acker_protocol.operations import Operation, OperationState
from acker_protocol.wire.operations import encode_operation
from acker_protocol.wire.packed import CONTENT_TYPE, MAX_BYTES, encode_packed, unpacked_size

MAX_OPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. Every try of it is the same bytes; ``key`` is None for one that only reads.

    ``messages`` are the operations in ``body``, ``wait_s`` is how long the service may take its time on purpose.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    key: str | None = None
    messages: tuple[Operation, ...] = ()
    wait_s: float = 0.0

    def headers(self) -> dict[str, str]:
        """Give the headers of this request alone."""
        headers = {"Content-Type": self.content_type} if self.body else {}
        return headers if self.key is None else headers | {routes.IDEMPOTENCY_KEY: self.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the service says to one operation."""

    message: Operation
    word: OperationState


def write(topology: str, messages: Sequence[Operation]) -> list[Call]:
    """Freeze operations into requests, in order: one alone as a single call in JSON, more as packed batches."""
    if len(messages) == 1:
        return [_single(topology, messages[0])]
    parts = (messages[at : at + MAX_OPS] for at in range(0, len(messages), MAX_OPS))
    return [call for part in parts for call in _batches(topology, part)]


def read_topology(topology: str) -> Call:
    """Ask for a topology."""
    return Call(method="GET", path=routes.topology(topology))


def read_root(topology: str, root_id: str) -> Call:
    """Ask for a root."""
    return Call(method="GET", path=routes.root(topology, root_id))


def read_spout(topology: str, spout_task: str) -> Call:
    """Ask for a spout task."""
    return Call(method="GET", path=routes.spout(topology, spout_task))


def make_ephemeral(topology: str, spout_task: str) -> Call:
    """Say that a spout task goes by itself; the same however often it is said, so it needs no key."""
    return Call(method="PUT", path=routes.spout(topology, spout_task), body=_json({"ephemeral": True}))


def publish(topology: str, spout_task: str) -> Call:
    """Ask for a spout task's completions to be published; the same however often it is said."""
    document = {"callback": {"kind": "pubsub"}}
    return Call(method="PUT", path=routes.spout(topology, spout_task), body=_json(document))


def post_to(topology: str, spout_task: str, *, url: str, secret: str) -> Call:
    """Ask for a spout task's completions to be posted; the same however often it is said."""
    document = {"callback": {"kind": "webhook", "url": url, "secret": secret}}
    return Call(method="PUT", path=routes.spout(topology, spout_task), body=_json(document))


def read_completions(
    topology: str, spout_task: str, *, after: str | None, limit: int, wait_ms: int, until: str | None = None
) -> Call:
    """Ask for completions after a cursor (None: from the oldest not yet released), waiting for the first.

    With ``until``, only for those up to that cursor; nothing is waited for then.
    """
    cursors = {"after": after, "until": until}
    query: dict[str, Any] = {"limit": limit, "wait_ms": wait_ms}
    query |= {name: cursor for name, cursor in cursors.items() if cursor is not None}
    path = f"{routes.completions(topology, spout_task)}?{urlencode(query)}"
    return Call(method="GET", path=path, wait_s=wait_ms / 1000)


def release(topology: str, spout_task: str, *, cursor: str) -> Call:
    """Release completions up to a cursor."""
    return _post(routes.release(topology, spout_task), _json({"cursor": cursor}))


def _single(topology: str, message: Operation) -> Call:
    operation = encode_operation(message)
    return _post(routes.operation(topology, operation.pop("op")), _json(operation), message)


def _batches(topology: str, messages: Sequence[Operation]) -> list[Call]:
    """Halve a batch until its bytes are within the limit, packed and unpacked; ten thousand long message ids are not.

    The service counts a text that many operations share once for each of them.
    """
    body = encode_packed(messages)
    if max(len(body), unpacked_size(body)) <= MAX_BYTES:
        path = routes.operation(topology, "batch")
        return [replace(_post(path, body, *messages), content_type=CONTENT_TYPE)]
    middle = len(messages) // 2
    return _batches(topology, messages[:middle]) + _batches(topology, messages[middle:])


def _post(path: str, body: bytes, *messages: Operation) -> Call:
    return Call(method="POST", path=path, body=body, key=uuid4().hex, messages=messages)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
