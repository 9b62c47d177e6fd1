"""Writes rows in few words."""

import json
from typing import Any

from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE as PACKED
from acker_protocol.wire.packed import encode_packed

from tests.support.asking import FRESH, ROOTS, Document, Row, Step

A1, A2, A3 = ROOTS[:3]
E1, E2, E3 = (f"{number:016x}" for number in (0xE1, 0xE2, 0xE4))
JSON = "application/json"
V1 = "/v1/topologies"
VERBS = ("init", "ack", "fail", "reset-timeout", "batch")
SOME_VERBS = ("init", "batch")
FOREIGN = "web pages of other origins, and names in Host that are not the acker's, are refused where no key is required"
"""Why such rows are answered otherwise than at commit 7da1270."""
"""Where all five differ in nothing."""

INIT = {"root_id": A1, "spout_task": "orders", "edges": [E1]}
ACK = {"root_id": A1, "edge_id": E1}
FAIL = {"root_id": A1}
BODIES: dict[str, Document] = {
    "init": INIT,
    "ack": ACK,
    "fail": FAIL,
    "reset-timeout": FAIL,
    "batch": {"ops": [{"op": "init"} | INIT, {"op": "ack"} | ACK]},
}
"""A body for each address, as most callers send it."""


def request(
    name: str,
    verb: str = "ack",
    body: Any = None,
    *,
    topology: str = "default",
    query: str = "",
    kind: str | None = JSON,
    headers: tuple[tuple[str, str], ...] = (),
    target: str | None = None,
    **fields: Any,
) -> Row:
    """Write a request; the body is a document, bytes, or parts of bytes."""
    sent = BODIES[verb] if body is None else body
    if not isinstance(sent, bytes | tuple):
        sent = compact(sent)
    kinds = () if kind is None else (("Content-Type", kind),)
    return Row(
        name=name,
        target=target or f"{V1}/{topology}/{verb}{query}",
        headers=(*kinds, *headers),
        body=sent if isinstance(sent, tuple) else (sent,),
        **fields,
    )


def batch(name: str, *ops: Document, **fields: Any) -> Row:
    """Write a batch of operations."""
    return request(name, "batch", {"ops": ops}, **fields)


def raw(name: str, *lines: str, body: str = "", **fields: Any) -> Row:
    """Write a request to the address of acks line by line."""
    sent = "\r\n".join([*lines, "", body]).encode("latin-1")
    return Row(name=name, target=f"{V1}/default/ack", raw=sent, **fields)


def compact(document: Any) -> bytes:
    """Write JSON without a space."""
    return json.dumps(document, separators=(",", ":")).encode()


def padded(document: Any, size: int) -> bytes:
    """Write JSON with so many spaces behind it that it has a size in bytes."""
    return compact(document).ljust(size)


def packed(*ops: Document) -> bytes:
    """Write a batch in the packed form."""
    return encode_packed(decode_batch({"ops": [*ops]}, max_operations=len(ops)))


def packed_request(name: str, body: bytes, **fields: Any) -> Row:
    """Write a packed batch."""
    return request(name, "batch", body, kind=PACKED, **fields)


def patched(body: bytes, at: int, new: bytes) -> bytes:
    """Write other bytes into a body."""
    return body[:at] + new + body[at + len(new) :]


def init(root: str = A1, **fields: Any) -> Document:
    """An init in a batch."""
    return {"op": "init"} | INIT | {"root_id": root} | fields


def ack(root: str = A1, **fields: Any) -> Document:
    """An ack in a batch."""
    return {"op": "ack"} | ACK | {"root_id": root} | fields


def fail(root: str = A1, **fields: Any) -> Document:
    """A failure in a batch."""
    return {"op": "fail", "root_id": root} | fields


def reset(root: str = A1, **fields: Any) -> Document:
    """A reset of the timeout in a batch."""
    return {"op": "reset-timeout", "root_id": root} | fields


def put(topology: str = FRESH, **configuration: Any) -> Step:
    """Create or change a topology."""
    return Step(path=f"{V1}/{topology}", method="PUT", document=configuration)


def delete(topology: str = FRESH, query: str = "?force=true&discard=true") -> Step:
    """Delete a topology."""
    return Step(path=f"{V1}/{topology}{query}", method="DELETE")


def done(*ops: Document, topology: str = "default") -> Step:
    """Apply operations."""
    return Step(path=f"{V1}/{topology}/batch", document={"ops": ops})
