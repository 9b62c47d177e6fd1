"""The fast path answers batches as FastAPI does: random ones in both forms, lawful and odd, on two ackers."""

import contextlib
import json
import random
from typing import Any

import pytest
from acker_protocol.errors import ServiceError
from acker_protocol.ids import format_id
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed

from tests.both_ways.test_operations import (
    ODD_BODIES,
    ODD_VALUES,
    TOPOLOGIES,
    Pair,
    ackers,
    effects,
    exchange,
    metrics,
)
from tests.support.raw_http import RawHttp

__all__ = ["ackers"]
pytestmark = pytest.mark.timeout(600)

REQUESTS = 400
KEYS = ("admin", "admin", "spout", "ack")
QUERIES = ("", "", "?results=all", "?results=exceptions", "?results=exceptions", "?results=some", "?more=1", "?")


class Batches:
    """Makes requests, the same ones for the same seed; most of them are lawful, and many of plain operations."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sent: list[bytes] = []

    def next(self) -> list[bytes]:
        """Give the parts of a request, each of which is sent by itself."""
        draw = self._random
        if self._sent and draw.random() < 0.1:
            return [draw.choice(self._sent)]
        form, body = self._body()
        path = f"/v1/topologies/{draw.choice((*TOPOLOGIES, *TOPOLOGIES, 'no-such'))}/batch{draw.choice(QUERIES)}"
        lines = [f"POST {path} HTTP/1.1", "Host: acker", f"Authorization: Bearer {draw.choice(KEYS)}"]
        lines += [f"Content-Type: {form}", f"Content-Length: {len(body)}"]
        if draw.random() < 0.4:
            lines.append(f"Idempotency-Key: k{draw.randrange(10**9)}")
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        if "Idempotency-Key" in lines[-1]:
            self._sent.append(head + body)
        cut = draw.randrange(1, len(body)) if len(body) > 1 else 1
        return [head, body[:cut], body[cut:]] if draw.random() < 0.2 else [head + body]

    def _body(self) -> tuple[str, bytes]:
        draw = self._random
        roots = draw.sample(range(1, 40), draw.randrange(13)) if draw.random() < 0.7 else [draw.randrange(1, 6)] * 5
        is_plain = draw.random() < 0.6
        document = {"ops": [self._operation(root, is_plain=is_plain) for root in roots]}
        if document["ops"] and draw.random() < 0.1:
            operation = draw.choice(document["ops"])
            operation[draw.choice((*operation, "no_such_field"))] = draw.choice(ODD_VALUES)
        if draw.random() < 0.5:
            with contextlib.suppress(ServiceError):
                return CONTENT_TYPE, self._spoilt(encode_packed(decode_batch(document, max_operations=10_000)))
        text = json.dumps(document, separators=draw.choice(((",", ":"), (", ", ": "))))
        return "application/json", draw.choice(ODD_BODIES)(text) if draw.random() < 0.1 else text.encode()

    def _spoilt(self, body: bytes) -> bytes:
        """Change a byte of some bodies."""
        if self._random.random() < 0.8:
            return body
        at = self._random.randrange(len(body))
        return body[:at] + bytes([self._random.choice((0, 1, 2, 3, 255))]) + body[at + 1 :]

    def _operation(self, root: int, *, is_plain: bool) -> dict[str, Any]:
        draw = self._random
        document: dict[str, Any] = {"op": draw.choice(("init", "ack", "ack")), "root_id": format_id(root)}
        document["ack_val"] = format_id(draw.randrange(4))
        if draw.random() < 0.8:
            document["outstanding"] = draw.choice((-1, 0, 1))
        if document["op"] == "init":
            document["spout_task"] = draw.choice(("orders", "payments"))
            if draw.random() < 0.4:
                document["message_id"] = draw.choice(("42", "", "ünï ☃", "m" * 129))
            if draw.random() < 0.2:
                document["trace"] = draw.choice((True, True, False))
        elif draw.random() < 0.4:
            document["edge_id"] = format_id(draw.randrange(1, 4))
            if not is_plain and draw.random() < 0.5:
                document = {name: document[name] for name in ("op", "root_id", "edge_id")}
                document["children"] = [format_id(edge) for edge in draw.sample(range(4, 9), draw.randrange(4))]
        if document["op"] == "init" and not is_plain and draw.random() < 0.3:
            document |= {"edges": [format_id(edge) for edge in draw.sample(range(1, 9), draw.randrange(4))]}
            del document["ack_val"]
            document.pop("outstanding", None)
        if not is_plain and draw.random() < 0.3:
            document = {"op": draw.choice(("fail", "reset-timeout")), "root_id": format_id(root)}
        if draw.random() < 0.4:
            document["component"] = draw.choice(("count", "c.1"))
        return document


@pytest.mark.parametrize("seed", [1, 2])
def test_batches_are_answered_alike_and_do_alike(ackers: Pair, seed: int) -> None:
    batches = Batches(seed)
    connections = [RawHttp(acker.url) for acker in ackers]
    try:
        for _ in range(REQUESTS):
            parts = batches.next()
            (fast, ended), (slow, also_ended) = (exchange(connection, parts) for connection in connections)
            assert fast == slow, parts
            assert ended == also_ended, parts
            if ended:
                for connection in connections:
                    connection.close()
                connections = [RawHttp(acker.url) for acker in ackers]
    finally:
        for connection in connections:
            connection.close()
    assert metrics(ackers[0]) == metrics(ackers[1])
    for topology in TOPOLOGIES:
        assert list(effects(ackers[0], topology)) == list(effects(ackers[1], topology))
