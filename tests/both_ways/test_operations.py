"""The fast path answers as FastAPI does: random requests, lawful and odd, on two ackers, one of them without it."""

import contextlib
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from acker_protocol.ids import format_id
from prometheus_client.parser import text_string_to_metric_families

from tests.support.keys import keys_file
from tests.support.raw_http import RawHttp
from tests.support.servers import WITHOUT_FAST_PATH, AckerProcess, acker_serve

pytestmark = pytest.mark.timeout(600)

REQUESTS = 3_000
WEEK_MS = 7 * 86_400_000
LASTING = {"message_timeout_ms": WEEK_MS, "retention_ms": WEEK_MS // 7}
"""No root times out or is forgotten while a test runs."""
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "default": {},
    "deduped": {"dedupe_window_ms": WEEK_MS},
    "capped": {"max_spout_pending": 5},
    "untracked": {"ackers": 0},
    "one-shard": {"ackers": 1},
    "traced": {"trace": 1},
    "half-traced": {"trace": 0.5},
}
VERBS = ("init", "ack", "ack", "ack", "fail", "reset-timeout")
KEYS = ("admin", "admin", "admin", "spout", "ack")
MADE_ID = re.compile(rb"(?<=x-request-id: )[0-9a-f]{16}(?=\r\n)")
COUNTED = ("acker_requests", "acker_problems", "acker_operations", "acker_operations_repeated", "acker_overloaded")
"""The metrics that both ways have to count alike."""

Pair = tuple[AckerProcess, AckerProcess]


class Requests:
    """Makes requests, the same ones for the same seed; most of them are lawful."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sent: list[bytes] = []

    def next(self) -> list[bytes]:
        """Give the parts of a request, each of which is sent by itself."""
        draw = self._random
        if self._sent and draw.random() < 0.1:
            return [draw.choice(self._sent)]
        verb = draw.choice(VERBS)
        body = self._body(self._document(verb))
        head, body = self._head(verb, body)
        if b"Idempotency-Key" in head:
            self._sent.append(head + body)
        return [head, body] if draw.random() < 0.1 else [head + body]

    def _id(self) -> str:
        return format_id(self._random.randrange(1, 40))

    def _document(self, verb: str) -> dict[str, Any]:
        draw = self._random
        document: dict[str, Any] = {"root_id": self._id()}
        if verb == "init":
            document |= {"spout_task": draw.choice(("orders", "orders", "payments", f"s{draw.randrange(100)}"))}
            document |= draw.choice(({"edges": [self._id()]}, {"ack_val": self._id(), "outstanding": 1}, {"edges": []}))
            if draw.random() < 0.3:
                document["message_id"] = draw.choice(("42", "ünï ☃", 'a"b\\c\n\t\u0001'))
            if draw.random() < 0.2:
                document["trace"] = draw.choice((True, True, False, None))
        if verb == "ack":
            edge = {"edge_id": self._id()}
            compact = {"ack_val": self._id(), "outstanding": draw.choice((-1, 0, 2, None))}
            document |= draw.choice((edge, edge | {"children": [self._id(), self._id()]}, compact, compact | edge))
        if verb == "fail" and draw.random() < 0.5:
            document["reason"] = draw.choice(("no", "", "ärger ☃", "x" * 1_025))
        if draw.random() < 0.2:
            document["component"] = draw.choice(("count", "c.1", "-", "", "ü", None))
        if draw.random() < 0.1:
            document[draw.choice((*document, "no_such_field"))] = draw.choice(ODD_VALUES)
        return document

    def _body(self, document: dict[str, Any]) -> bytes:
        draw = self._random
        text = json.dumps(
            document, ensure_ascii=draw.random() < 0.5, separators=draw.choice(((",", ":"), (", ", ": ")))
        )
        text = text.replace("\ud800", "\\ud800")  # which has no UTF-8
        if draw.random() < 0.15:
            return draw.choice(ODD_BODIES)(text)
        return text.encode()

    def _head(self, verb: str, body: bytes) -> tuple[bytes, bytes]:
        draw = self._random
        path = f"/v1/topologies/{draw.choice((*TOPOLOGIES, *TOPOLOGIES, 'no-such'))}/{verb}"
        headers = [b"Host: acker", b"Authorization: Bearer " + draw.choice(KEYS).encode()]
        headers.append(b"Content-Type: application/json")
        if draw.random() < 0.3:
            headers.append(b"Idempotency-Key: k%d" % draw.randrange(10**9))
        if draw.random() < 0.3:
            headers.append(b"X-Request-Id: " + draw.choice((b"checkout-7", b"", b"no id", b"x" * 129)))
        length = b"Content-Length: %d" % len(body)
        if draw.random() < 0.15:
            path, headers, length, body = draw.choice(ODD_HEADS)(path, headers, length, body)
        lines = [f"POST {path} HTTP/1.1".encode(), *headers, length]
        return b"\r\n".join(lines) + b"\r\n\r\n", body


ODD_VALUES = (
    *(None, True, 0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 2**64, 10**40, 0.0, 1.0, 1e400, float("nan")),
    *("", "0" * 16, "00000000000000A1", "00000000000000a1 ", "a1", "\ud800", "\u0661" * 16, [], [[]], {}, {"a": 1}),
    *([format_id(1)], [format_id(1), format_id(1)], [format_id(1), format_id(2), format_id(3)], [None]),
)
"""Values that most fields must not have."""

ODD_BODIES: tuple[Callable[[str], bytes], ...] = (
    lambda text: b"\xef\xbb\xbf" + text.encode(),
    lambda text: b" \r\n\t" + text.encode() + b" \n",
    lambda text: text.encode() + b"x",
    lambda text: text[:-1].encode(),
    lambda text: text.encode("utf-16"),
    lambda text: text.replace("a", "\\u0061").encode(),
    lambda text: text.replace("root_id", "root\\u005fid").encode(),
    lambda text: text.replace('"root_id": ', '"root_id":"00000000000000a1","root_id":').encode(),
    lambda text: text.replace("{", '{"root_id":"zz",', 1).encode(),
    lambda text: text.replace("}", ',"root_id":null}').encode(),
    lambda text: text.replace("}", ',"outstanding":1.0}').encode(),
    lambda text: text.replace("}", ',"outstanding":-0}').encode(),
    lambda text: text.replace("}", ',"outstanding":' + "9" * 5_000 + "}").encode(),
    lambda text: text.replace("}", ',"component":"\x01"}').encode(),
    lambda text: text.replace("}", ',"component":"').encode() + b'\xff"}',
    lambda text: text.replace("}", ',"component":"\\ud83d"}').encode(),
    lambda text: text.replace("}", ',"component":NaN}').encode(),
    lambda text: text.replace("}", ',"component":' + "[" * 2_000 + "]" * 2_000 + "}").encode(),
    lambda text: text.replace("}", ",}").encode(),
    lambda text: f"[{text}]".encode(),
    lambda text: text.replace('"', "'").encode(),
    lambda _: b"",
    lambda _: b"null",
    lambda text: text.encode() + b" " * 70_000,
)
"""What is done to a body; JSON that some read and others do not."""

Head = tuple[str, list[bytes], bytes, bytes]


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"


ODD_HEADS: tuple[Callable[[str, list[bytes], bytes, bytes], Head], ...] = (
    lambda path, headers, length, body: (path, [line.upper() for line in headers], length, body),
    lambda path, headers, length, body: (path, [line.lower() for line in headers], length.lower(), body),
    lambda path, headers, length, body: (path, [*headers, *headers], length, body),
    lambda path, headers, length, body: (path, [*headers, b"X-Other: 1", b"x-other: 2"], length, body),
    lambda path, headers, length, body: (path, [*headers, b"Authorization: Bearer admin"], length, body),
    lambda path, headers, length, body: (path, [*headers, b"Content-Type: text/plain"], length, body),
    lambda path, headers, length, body: (
        path,
        [*headers, b"Idempotency-Key: one", b"Idempotency-Key: two"],
        length,
        body,
    ),
    lambda path, headers, length, body: (path, [*headers, b"Idempotency-Key:"], length, body),
    lambda path, headers, length, body: (path, [*headers, b"Idempotency-Key: " + b"k" * 129], length, body),
    lambda path, headers, length, body: (path, [*headers, b"Idempotency-Key: \xff"], length, body),
    lambda path, headers, _, body: (path, headers, b"Transfer-Encoding: chunked", _chunked(body)),
    lambda path, headers, length, body: (path, headers, length.replace(b": ", b": 000"), body),
    lambda path, headers, length, body: (path, headers[:1], length, body),
    lambda path, headers, length, body: (path, headers[:2], length, body),
    lambda path, headers, length, body: (path, [headers[0], *headers[2:]], length, body),
    lambda path, headers, length, body: (
        path,
        [headers[0], b"Authorization: Bearer nobody", *headers[2:]],
        length,
        body,
    ),
    lambda path, headers, length, body: (
        path,
        [headers[0], b"Authorization: bearer  admin ", *headers[2:]],
        length,
        body,
    ),
    lambda path, headers, length, body: (path, [headers[0], b"Authorization: Basic admin", *headers[2:]], length, body),
    lambda path, headers, length, body: (
        path,
        [*headers[:2], b"Content-Type: application/json; charset=utf-8"],
        length,
        body,
    ),
    lambda path, headers, length, body: (path, [*headers[:2], b"Content-Type: Application/JSON"], length, body),
    lambda path, headers, length, body: (path, [*headers[:2], b"Content-Type: text/plain"], length, body),
    lambda path, headers, length, body: (path.replace("default", "def%61ult"), headers, length, body),
    lambda path, headers, length, body: (path.replace("/v1/", "/v1%2F"), headers, length, body),
    lambda path, headers, length, body: (path + "/", headers, length, body),
    lambda path, headers, length, body: (path.upper(), headers, length, body),
    lambda path, headers, length, body: (path.replace("topologies/", "topologies/."), headers, length, body),
    lambda path, headers, length, body: (path.replace("topologies/", "topologies/" + "t" * 128), headers, length, body),
    lambda path, headers, length, body: (path + "?", headers, length, body),
    lambda path, headers, length, body: (path + "?results=all", headers, length, body),
    lambda path, headers, length, body: ("http://acker" + path, headers, length, body),
    lambda path, headers, length, body: (path + "#there", headers, length, body),
    lambda path, headers, length, body: (path, [*headers, b"Connection: close"], length, body),
)
"""What is done to a head."""


@pytest.fixture(scope="module")
def ackers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two ackers, each with a store of its own; FastAPI answers every request of the second."""
    folder = tmp_path_factory.mktemp("both")
    keys = str(keys_file(folder, "admin", "spout", "ack"))
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(
                acker_serve(folder / name, "--data-dir", str(folder / name / "data"), "--keys-file", keys, **program)
            )
            for name, program in (("fast", {}), ("slow", {"program": WITHOUT_FAST_PATH}))
        ]
        for acker in both:
            acker.http.headers["Authorization"] = "Bearer admin"
            for name, configuration in TOPOLOGIES.items():
                answer = acker.http.put(f"/v1/topologies/{name}", json=configuration | LASTING)
                assert answer.is_success, answer.text
        yield both[0], both[1]


def exchange(connection: RawHttp, parts: list[bytes]) -> tuple[bytes, bool]:
    """Send a request and give its answer, byte for byte, and whether the connection ends with it.

    The answer is without its date, and without an id that was made for it.
    """
    for part in parts:
        connection.send(part)
    head, length = b"", 0
    while not head.endswith(b"\r\n\r\n"):
        line = connection.read_line()
        if not line:
            return head, True
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if not line.lower().startswith(b"date:"):
            head += MADE_ID.sub(b"", line)
    return head + connection.read(length), b"connection: close" in head


def metrics(acker: AckerProcess) -> dict[Any, float]:
    """What an acker has counted of the requests to single operations."""
    families = text_string_to_metric_families(acker.http.get("/metrics").text)
    samples = [sample for family in families if family.name in COUNTED for sample in family.samples]
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for sample in samples
        if sample.labels.get("method", "POST") == "POST"
    }


TIMES = {
    "id",
    "age_ms",
    "at_ms",
    "started_ms",
    "deadline_at_ms",
    "last_ack_at_ms",
    "complete_latency_ms",
    "oldest_age_ms",
    "since_at_ms",
}
"""What depends on when a request came."""


def without_times(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_times(member) for name, member in value.items() if name not in TIMES}
        case list():
            return sorted((without_times(member) for member in value), key=repr)
    return value


def effects(acker: AckerProcess, topology: str) -> Iterator[Any]:
    """What an acker tells of a topology: its counts, every root, its tree, and all completions; without times."""
    path = f"/v1/topologies/{topology}"
    yield without_times(acker.http.get(path).json())
    for root in range(1, 40):
        yield without_times(acker.http.get(f"{path}/roots/{format_id(root)}").json())
        yield without_times(acker.http.get(f"{path}/roots/{format_id(root)}/tree").json())
    for spout_task in ("orders", "payments"):
        completions: httpx.Response = acker.http.get(f"{path}/spouts/{spout_task}/completions?limit=10000")
        yield without_times(completions.json().get("completions"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_ways_answer_alike_and_do_alike(ackers: Pair, seed: int) -> None:
    requests = Requests(seed)
    connections = [RawHttp(acker.url) for acker in ackers]
    try:
        for _ in range(REQUESTS // 3):
            parts = requests.next()
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
