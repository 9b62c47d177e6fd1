"""`acker serve` under bodies that are small to send and large to build."""

import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.support.processes import cpu_seconds, parsing_cpu_seconds
from tests.support.servers import AckerProcess, acker_serve

V1 = "/v1/topologies"
DEFAULT = f"{V1}/default"
SIZE = 4_194_304 - 200
JSON = {"Content-Type": "application/json"}
ROOT = b'"root_id": "00000000000000a1"'


def filled(begin: bytes, item: bytes, end: bytes) -> bytes:
    """As many items as a body may have."""
    return begin + b",".join([item] * (SIZE // (len(item) + 1))) + end


HEAVY = {
    "a list of empty lists": filled(b"[", b"[]", b"]"),
    "operations that are empty lists": filled(b'{"ops": [', b"[]", b"]}"),
    "operations that are lists of lists": filled(b'{"ops": [', b"[[]]", b"]}"),
    "operations with an empty list each": filled(b'{"ops": [', b'{"a":[]}', b"]}"),
    "one operation with empty lists for children": filled(
        b'{"ops": [{"op": "ack", ' + ROOT + b', "children": [', b"[]", b"]}]}"
    ),
    "an ack with lists of lists for children": filled(b"{" + ROOT + b', "children": [', b"[[]]", b"]}"),
    "lists beside the operations": filled(b'{"ops": [], "x": [', b"[]", b"]}"),
    "a document of many objects": filled(b'{"x": [', b'{"a":{}}', b"]}"),
}
PATHS = {
    "batch": f"{DEFAULT}/batch",
    "ack": f"{DEFAULT}/ack",
    "release": f"{DEFAULT}/spouts/orders/completions/release",
}


DOCUMENT_BYTES = 65_536
DOCUMENTS = {
    "a topology": ("PUT", f"{V1}/other", b'"ackers": 1'),
    "a spout task": ("PUT", f"{DEFAULT}/spouts/orders", b'"ephemeral": false'),
    "a fail by hand": ("POST", f"{DEFAULT}/roots/00000000000000a1/fail", b'"reason": "no"'),
    "states of roots": ("POST", f"{DEFAULT}/roots/states", b'"root_ids": []'),
    "a release": ("POST", f"{DEFAULT}/spouts/orders/completions/release", b'"cursor": "no"'),
}
"""Documents that are no operations: how they are sent, and a field."""


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path_factory.mktemp("heavy"), "--redis-url", valkey_url) as acker:
        acker.http.put(f"{DEFAULT}/spouts/orders")
        yield acker


def answered(acker: AckerProcess, method: str, path: str, body: bytes, **headers: str) -> tuple[httpx.Response, float]:
    """Send a body; give the answer, and the most CPU seconds that the acker worked before it answered `/livez`."""
    answers: list[httpx.Response] = []

    def send() -> None:
        answers.append(httpx.request(method, f"{acker.url}{path}", content=body, headers=JSON | headers, timeout=60))

    sending = threading.Thread(target=send)
    sending.start()
    longest = 0.0
    while sending.is_alive():
        worked = cpu_seconds(acker.process.pid)
        assert acker.http.get("/livez").is_success
        longest = max(longest, cpu_seconds(acker.process.pid) - worked)
    sending.join()
    return answers[0], longest


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY.keys())
def test_a_body_of_many_small_containers_is_refused_and_stalls_nobody(
    acker: AckerProcess, body: bytes, path: str
) -> None:
    answer, longest = answered(acker, "POST", path, body)
    assert (answer.status_code, answer.json()["code"]) in {(413, "too_large"), (422, "invalid")}
    assert longest < parsing_cpu_seconds()


ROUTES = {
    "init": ("POST", f"{DEFAULT}/init"),
    "fail": ("POST", f"{DEFAULT}/fail"),
    "reset-timeout": ("POST", f"{DEFAULT}/reset-timeout"),
    "topology": ("PUT", f"{V1}/other"),
    "spout task": ("PUT", f"{DEFAULT}/spouts/orders"),
    "fail by hand": ("POST", f"{DEFAULT}/roots/00000000000000a1/fail"),
    "states of roots": ("POST", f"{DEFAULT}/roots/states"),
    "dead letters": ("POST", f"{DEFAULT}/spouts/orders/dead-letters/discard"),
    "completions": ("POST", f"{DEFAULT}/spouts/orders/completions/discard"),
}
"""All other routes; a discard of completions takes no body and passes one over."""


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}], ids=["no key", "idempotency key"])
@pytest.mark.parametrize(("method", "path"), ROUTES.values(), ids=ROUTES.keys())
def test_no_route_is_stalled_by_a_body_of_empty_lists(
    acker: AckerProcess, method: str, path: str, headers: dict[str, str]
) -> None:
    answer, longest = answered(acker, method, path, HEAVY["a list of empty lists"], **headers)
    assert answer.status_code in ({200} if "completions/discard" in path else {413, 422})
    assert longest < parsing_cpu_seconds()


@pytest.mark.parametrize(
    "item", ["{}", "1", "-1.5e300", '"a"', "null", "[[]]", '{"op":"fail"}', '{"op":"ack","children":[]}']
)
def test_a_batch_of_far_too_many_operations_is_too_large_and_stalls_nobody(acker: AckerProcess, item: str) -> None:
    body = filled(b'{"ops": [', item.encode(), b"]}")
    answer, longest = answered(acker, "POST", f"{DEFAULT}/batch", body)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert longest < parsing_cpu_seconds()


DEEP = {
    "lists": b"[" * SIZE,
    "objects": b'{"a":' * (SIZE // 5),
    "an operation": b'{"ops": [' + b'{"a":' * 10_000,
    "a field": b'{"root_id":' * 5_000,
    "a large field": b'{"root_id":' * (SIZE // 11),
}


@pytest.mark.parametrize("path", PATHS.values())
@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP.keys())
def test_a_body_that_is_nested_deeply_is_refused(acker: AckerProcess, body: bytes, path: str) -> None:
    answer = acker.http.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) in {(413, "too_large"), (422, "invalid")}
    assert len(answer.json()["detail"]) < 500


@pytest.mark.parametrize(("method", "path", "field"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_that_is_no_operation_has_sixty_four_kibibytes(
    acker: AckerProcess, method: str, path: str, field: bytes
) -> None:
    for size, refused in ((DOCUMENT_BYTES, False), (DOCUMENT_BYTES + 1, True)):
        body = (b"{" + field).ljust(size - 1) + b"}"
        answer = acker.http.request(method, path, content=body, headers=JSON)
        assert (answer.status_code == 413) == refused
        if refused:
            assert answer.json()["code"] == "too_large"
            assert str(DOCUMENT_BYTES) in answer.json()["detail"]


def test_a_large_batch_with_brackets_in_its_texts_is_taken(acker: AckerProcess) -> None:
    """What is no structure does not count as such."""
    op = {"op": "init", "spout_task": "orders", "edges": [], "message_id": '[{"' * 100}
    ops = [op | {"root_id": f"{root:016x}"} for root in range(1, 5_001)]
    answer = acker.http.post(f"{DEFAULT}/batch", json={"ops": ops})
    assert (answer.status_code, answer.json()["accepted"]) == (200, 5_000)


def test_an_operation_with_very_many_children_is_taken(acker: AckerProcess) -> None:
    children = [f"{child:016x}" for child in range(2**40, 2**40 + 100_001)]
    ack = {"root_id": "00000000000000a1", "edge_id": "00000000000000b1", "children": children}
    assert acker.http.post(f"{DEFAULT}/ack", json=ack).status_code == 200
    assert acker.http.post(f"{DEFAULT}/batch", json={"ops": [ack | {"op": "ack"}]}).status_code == 200
