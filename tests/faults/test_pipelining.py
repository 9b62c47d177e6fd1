"""`acker serve` under clients that pipeline: they send request after request and wait for no answer."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.caller import ack
from tests.support.flood import assert_bears, flooded
from tests.support.keys import bearer, keys_file
from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

DEFAULT = "/v1/topologies/default"
TOTAL = 13_700_000
"""Bytes of requests, as many as took an acker from 84 to 715 MiB."""

BOUNDS = {"grown_kib": 100_000, "livez_cpu_s": 1.0}
WAITING = 100
"""Requests of one connection that wait for their answers, at most."""


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def post(path: str, document: object, *headers: str) -> bytes:
    body = json.dumps(document).encode()
    return head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}", *headers) + body


def chunked(path: str) -> bytes:
    return head("POST", path, "Content-Type: application/json", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"


ADMIN = f"Authorization: {bearer('admin')['Authorization']}"
FLOODS = {
    "reads without a key": head("GET", DEFAULT),
    "the shortest requests": b"GET / HTTP/1.1\r\n\r\n",
    "acks without a key": post(f"{DEFAULT}/ack", {}),
    "acks in chunks": chunked(f"{DEFAULT}/ack"),
    "an open page": head("GET", "/livez"),
    "acks with a key": post(f"{DEFAULT}/ack", {"root_id": "00000000000000a1", "edge_id": "00000000000000b1"}, ADMIN),
}


@pytest.fixture
def keyed(tmp_path: Path, valkey_url: str) -> Iterator[AckerProcess]:
    """An acker that asks for a key; a new one for each test, for its memory is measured."""
    options = ("--redis-url", valkey_url, "--keys-file", str(keys_file(tmp_path, "admin")))
    with acker_serve(tmp_path, *options) as acker:
        yield acker


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path_factory.mktemp("pipelining"), "--redis-url", valkey_url) as acker:
        yield acker


@pytest.mark.parametrize("request_", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_of_pipelined_requests_costs_little_memory_and_stalls_nobody(
    keyed: AckerProcess, request_: bytes
) -> None:
    with flooded(keyed, request_ * 10_000, total=TOTAL) as floods:
        assert_bears(keyed, floods, answers=1_000, **BOUNDS)


def test_so_do_floods_of_ten_connections_in_small_pieces(keyed: AckerProcess) -> None:
    with flooded(keyed, FLOODS["reads without a key"] * 50, total=TOTAL, connections=10) as floods:
        assert_bears(keyed, floods, answers=2_000, **BOUNDS)


@pytest.mark.parametrize("count", [2, WAITING, WAITING + 1, 1_000])
def test_pipelined_requests_are_all_answered_in_their_order(acker: AckerProcess, count: int) -> None:
    roots = range(1, count + 1)
    with RawHttp(acker.url) as raw:
        raw.send(*(post(f"{DEFAULT}/ack", _document(root)) for root in roots))
        answers = [raw.answer() for _ in roots]
    assert {status for status, _, _ in answers} == {200}
    assert [int(body["root_id"], 16) for _, _, body in answers] == list(roots)


def test_bodies_of_all_forms_and_sizes_may_be_pipelined(acker: AckerProcess) -> None:
    large = post(f"{DEFAULT}/batch", {"ops": [ack(root, 9) for root in range(1, 5_001)]})
    with RawHttp(acker.url) as raw:
        raw.send((head("GET", "/livez") + large + chunked(f"{DEFAULT}/ack") + post(f"{DEFAULT}/ack", {})) * 5)
        assert [raw.answer()[0] for _ in range(20)] == [200, 200, 422, 422] * 5


def test_a_caller_that_leaves_while_its_next_request_waits_leaves_no_place_taken(acker: AckerProcess) -> None:
    """Its connection is not read on while a request waits, so the acker finds out when it answers."""
    topology, root = "/v1/topologies/leaving", f"{0xC1:016x}"  # of its own: a completion of another test ends no poll
    for _ in range(2):
        acker.http.put(topology, json={}).raise_for_status()
        acker.http.put(f"{topology}/spouts/orders").raise_for_status()
        with RawHttp(acker.url) as raw:
            raw.send(head("GET", f"{topology}/spouts/orders/completions?wait_ms=60000"), head("GET", "/livez"))
            eventually_true(lambda: "acker_requests_waiting 1.0" in acker.http.get("/metrics").text)
        init = {"root_id": root, "spout_task": "orders", "ack_val": root}
        acker.http.post(f"{topology}/init", json=init).raise_for_status()
        acker.http.post(f"{topology}/fail", json={"root_id": root}).raise_for_status()
        eventually_true(lambda: "acker_requests_waiting 0.0" in acker.http.get("/metrics").text)
        acker.http.delete(f"{topology}?force=true&discard=true").raise_for_status()
    assert "Traceback" not in acker.log.read_text()


def test_a_head_that_is_no_http_is_refused_once_those_before_it_are_answered(acker: AckerProcess) -> None:
    with RawHttp(acker.url) as raw:
        raw.send(head("GET", DEFAULT) * 3, b"\x16\x03\x01 hello\r\n\r\n")
        assert [raw.answer()[0] for _ in range(4)] == [200, 200, 200, 400]
        with contextlib.suppress(ConnectionError):
            assert raw.is_closed()


def _document(root: int) -> dict[str, object]:
    return {name: value for name, value in ack(root, 9).items() if name != "op"}
