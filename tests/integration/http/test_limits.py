"""`acker serve` under clients that ask for too much, too slowly, or never."""

import contextlib
from collections.abc import Iterator

import pytest
from acker_protocol.errors import MEDIA_TYPE
from acker_service.http.connection import EXTRA_CONNECTIONS

from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

DEFAULT = "/v1/topologies/default"
ACK = b'{"root_id": "00000000000000a1", "edge_id": "00000000000000b1"}'
HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
OPERATION = (
    f"POST {DEFAULT}/ack HTTP/1.1\r\nHost: localhost\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(ACK)}\r\n"
).encode()
MEGABYTE = 1_000_000
CONNECTIONS = 4
CONTINUE = "Expect: 100-continue"


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """One request in flight, none that waits, few connections."""
    bounds = ("--max-in-flight", "1", "--max-waiting", "0", "--max-connections", str(CONNECTIONS))
    with acker_serve(tmp_path_factory.mktemp("tight"), "--redis-url", valkey_url, *bounds) as acker:
        yield acker


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """Little time, a small body, a small head."""
    times, sizes = ("--body-timeout-s", "0.5", "--keep-alive-s", "1"), ("--max-body-bytes", "2000")
    bounds = (*times, *sizes, "--max-header-bytes", "4000")
    with acker_serve(tmp_path_factory.mktemp("hasty"), "--redis-url", valkey_url, *bounds) as acker:
        yield acker


@pytest.fixture
def raw(tight: AckerProcess) -> Iterator[RawHttp]:
    with RawHttp(tight.url) as raw:
        yield raw


@pytest.fixture
def slow(hasty: AckerProcess) -> Iterator[RawHttp]:
    with RawHttp(hasty.url) as slow:
        yield slow


def test_a_request_too_many_is_answered_overloaded_and_the_one_in_flight_is_done(tight, raw):
    raw.post(f"{DEFAULT}/ack", CONTINUE, length=len(ACK))
    assert raw.answer()[0] == 100, "it is in flight"
    refused = tight.http.post(f"{DEFAULT}/ack", content=ACK, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (503, "overloaded", True)
    assert refused.headers["Retry-After"] == "1"
    assert tight.http.get("/livez").is_success
    assert tight.http.get("/readyz").is_success
    raw.send(ACK)
    assert raw.answer()[0] == 200
    assert raw.get(DEFAULT)[0] == 200, "there is a place again"


def test_who_waits_beyond_the_bound_is_answered_overloaded(raw):
    completions = f"{DEFAULT}/spouts/nobody-emits-under-this/completions"
    assert raw.get(f"{completions}?wait_ms=1")[2]["code"] == "overloaded"
    assert raw.get(completions)[2]["code"] == "unknown_spout"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"a: " + b"x" * MEGABYTE + b"\r\n", id="one of a megabyte"),
        pytest.param(b"a: x\r\n" * 10_000, id="ten thousand"),
        pytest.param(b"a: x\r\n" * 100, id="a hundred more"),
        pytest.param(b"a: " + b"x" * 65_536 + b"\r\n", id="one of 64 KiB"),
    ],
)
def test_a_head_that_is_too_large_is_refused_and_the_connection_closed(raw, header):
    raw.send(HEAD, header, b"\r\n")
    status, headers, problem = raw.answer()
    assert (status, problem["status"], problem["code"], problem["retryable"]) == (431, 431, "too_large", False)
    assert (headers["content-type"], headers["connection"]) == (MEDIA_TYPE, "close")
    assert raw.is_closed()


def test_the_head_of_an_operation_that_is_too_large_is_refused_too(slow):
    slow.get("/v1/topologies")
    slow.send(OPERATION, b"\r\n", ACK)
    assert slow.answer()[0] == 200
    slow.send(OPERATION, b"a: ", b"x" * 4_000, b"\r\n\r\n", ACK)
    assert slow.answer()[0] == 431


@pytest.mark.parametrize("beginning", [HEAD + b"a: ", b"GET /", HEAD + b"a"])
def test_a_head_without_end_is_refused_long_before_it_fills_the_memory(raw, beginning):
    raw.send(beginning, b"x" * MEGABYTE)
    assert raw.answer()[0] == 431
    assert raw.is_closed()


def test_trailers_without_end_are_refused(raw):
    raw.send(f"POST {DEFAULT}/ack HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
    raw.send(b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n")
    for _ in range(10):
        raw.send(b"a: ", b"x" * 100_000, b"\r\n")
    assert raw.answer()[0] == 431
    assert raw.is_closed()


def test_a_head_just_within_the_bounds_is_answered(raw):
    raw.send(HEAD, b"a: x\r\n" * 98, b"b: " + b"x" * 60_000, b"\r\n\r\n")
    assert raw.answer()[0] == 200
    assert raw.get("/livez")[0] == 200


def test_the_head_of_the_next_request_may_come_in_pieces(tight, raw):
    raw.get("/v1/topologies")  # from here on this name in Host is known, and an operation in one piece is plain
    with RawHttp(tight.url) as other:
        other.send(OPERATION, b"\r\n", ACK)
        assert other.answer()[0] == 200
        other.send(HEAD)
        assert raw.get("/livez")[0] == 200, "the acker has read what came before"
        other.send(b"\r\n")
        assert other.answer()[0] == 200


def test_a_large_body_is_no_large_head(raw):
    raw.post(f"{DEFAULT}/ack", length=MEGABYTE)
    raw.send(b" " * (MEGABYTE - len(ACK)), ACK)
    assert raw.answer()[0] == 200


def test_many_small_chunks_are_no_large_head(raw):
    raw.send(f"POST {DEFAULT}/ack HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
    raw.send(b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 100_000)
    raw.send(f"{len(ACK):x}\r\n".encode(), ACK, b"\r\n0\r\n\r\n")
    assert raw.answer()[0] == 200


def test_what_is_no_http_is_answered_with_a_problem_document(raw):
    raw.send(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
    status, headers, problem = raw.answer()
    assert (status, headers["content-type"], problem["code"]) == (400, MEDIA_TYPE, "invalid")
    assert raw.is_closed()


def test_a_body_that_comes_byte_by_byte_is_refused_and_the_connection_closed(slow):
    slow.post(f"{DEFAULT}/ack", length=1_000)
    slow.send(b" ")
    status, _, problem = slow.answer()
    assert (status, problem["code"], problem["retryable"]) == (422, "invalid", True)
    slow.trickle_until_closed(b" ")


@pytest.mark.parametrize("beginning", [b"", b"GET /livez", HEAD])
def test_a_head_that_does_not_come_ends_the_connection(slow, beginning):
    slow.send(beginning)
    assert slow.is_closed()


@pytest.mark.parametrize(("beginning", "byte"), [(b"", b"\n"), (b"GET /", b"x"), (HEAD + b"a: ", b"x")])
def test_a_head_that_comes_byte_by_byte_ends_the_connection(slow, beginning, byte):
    slow.send(beginning)
    slow.trickle_until_closed(byte)


@pytest.mark.parametrize(("beginning", "byte"), [(b"", b"\n"), (HEAD + b"a: ", b"x")])
def test_so_does_a_second_one(slow, beginning, byte):
    assert slow.get("/livez")[0] == 200
    slow.send(beginning)
    slow.trickle_until_closed(byte)


def test_a_connection_that_is_not_used_is_closed(slow):
    assert slow.get("/livez")[0] == 200
    assert slow.is_closed()


def test_the_rest_of_a_refused_body_is_not_waited_for_long(slow):
    slow.post(f"{DEFAULT}/ack", length=MEGABYTE)
    slow.send(b" ")
    assert slow.answer()[2]["code"] == "too_large"
    slow.trickle_until_closed(b" ")


def test_a_refused_body_that_comes_soon_keeps_the_connection(raw):
    raw.post(f"{DEFAULT}/ack", length=5 * MEGABYTE)
    raw.send(b" " * MEGABYTE)
    assert raw.answer()[2]["code"] == "too_large"
    raw.send(b" " * 4 * MEGABYTE)
    assert raw.get("/livez")[0] == 200


def test_a_long_wait_is_not_cut_off(slow, hasty):
    hasty.http.put(f"{DEFAULT}/spouts/patient")
    status, _, told = slow.get(f"{DEFAULT}/spouts/patient/completions?wait_ms=3000")
    assert (status, told["completions"]) == (200, [])


def test_a_connection_too_many_is_answered_overloaded_and_closed(tight):
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connect(tight, stack)
        one_more = stack.enter_context(RawHttp(tight.url))
        status, headers, problem = one_more.get(DEFAULT)
        assert (status, problem["code"], headers["connection"]) == (503, "overloaded", "close")
        assert one_more.is_closed()
        assert tight.http.get("/livez").is_success
    eventually_true(lambda: tight.http.get(DEFAULT).is_success)


def test_far_too_many_connections_are_closed_unanswered(tight):
    with contextlib.ExitStack() as stack:
        first = connect(tight, stack)
        many = [stack.enter_context(RawHttp(tight.url)) for _ in range(CONNECTIONS + EXTRA_CONNECTIONS)]
        with pytest.raises((AssertionError, OSError)):
            many[-1].get("/livez")
        assert first.get(DEFAULT)[0] == 200
    eventually_true(lambda: tight.http.get(DEFAULT).is_success)


def connect(acker: AckerProcess, stack: contextlib.ExitStack) -> RawHttp:
    """Make a connection that is within the bound, once those of earlier tests are gone."""

    def is_served() -> bool:
        made.append(RawHttp(acker.url))
        served = made[-1].get(DEFAULT)[0] == 200
        if not served:
            made[-1].close()
        return served

    made: list[RawHttp] = []
    eventually_true(is_served)
    return stack.enter_context(made[-1])
