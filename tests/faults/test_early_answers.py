"""`acker serve` refuses a request while its body is still on its way: the client can read why."""

import contextlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.keys import bearer, keys_file
from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

V1 = "/v1/topologies"
DEFAULT = f"{V1}/default"
BATCH = f"{DEFAULT}/batch"
MEGABYTE = 1_000_000
MAX_BODY_BYTES = 1_048_576
DRAINED = 64 * MAX_BODY_BYTES
"""More than is ever read away, in bytes."""

BODY_TIMEOUT_S = 2.0
KEY = bearer("admin")
JSON = {"Content-Type": "application/json"}
CLOSE = "Connection: close"
KEY_LINE = f"Authorization: {KEY['Authorization']}"

REFUSED = {
    "a batch": (BATCH, KEY | JSON, 413),
    "a single ack": (f"{DEFAULT}/ack", KEY | JSON, 413),
    "a body for a topology": (DEFAULT, KEY | JSON, 413),
    "no key": (BATCH, JSON, 401),
    "a wrong key": (f"{DEFAULT}/init", bearer("nobody") | JSON, 401),
    "no such address": ("/nowhere", JSON, 404),
    "another method": (f"{DEFAULT}/spouts", KEY | JSON, 405),
    "another content type": (BATCH, KEY | {"Content-Type": "text/plain"}, 415),
}


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """A small body, little time, and keys."""
    folder = tmp_path_factory.mktemp("early")
    bounds = ("--max-body-bytes", str(MAX_BODY_BYTES), "--body-timeout-s", str(BODY_TIMEOUT_S))
    keys = ("--keys-file", str(keys_file(folder, "admin")))
    with acker_serve(folder, "--redis-url", valkey_url, *bounds, *keys) as acker:
        yield acker


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 5 * MEGABYTE, 12 * MEGABYTE])
@pytest.mark.parametrize(("path", "headers", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_a_client_that_sends_all_before_it_reads_sees_the_refusal(
    acker: AckerProcess, path: str, headers: dict[str, str], status: int, size: int
) -> None:
    """urllib does, and asks for the connection to be closed."""
    for _ in range(3):
        method = "PUT" if path == DEFAULT else "POST"
        asked = urllib.request.Request(f"{acker.url}{path}", data=b" " * size, headers=headers, method=method)
        with pytest.raises(urllib.error.HTTPError) as refusal, urllib.request.urlopen(asked, timeout=20):
            pass
        refusal.value.close()
        assert refusal.value.status == status


@pytest.mark.parametrize("form", ["length", "chunked", "HTTP/1.0"])
def test_a_client_that_goes_on_sending_after_the_refusal_sees_it(acker: AckerProcess, form: str) -> None:
    with RawHttp(acker.url) as raw:
        raw.send(head(form, 10 * MEGABYTE), piece(form, 2 * MEGABYTE))
        raw.wait_for_answer()
        for _ in range(8):
            raw.send(piece(form, MEGABYTE))
        status, headers, problem = raw.answer()
        assert (status, problem["code"], headers["connection"]) == (413, "too_large", "close")
        assert raw.is_closed()


def test_a_body_of_unknown_length_is_refused_likewise(acker: AckerProcess) -> None:
    connection = http.client.HTTPConnection(acker.url.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        body = (b" " * 50_000 for _ in range(100))
        connection.request("POST", BATCH, body, KEY | JSON | {"Connection": "close"}, encode_chunked=True)
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("connection", [CLOSE, "Connection: keep-alive"])
def test_no_more_than_so_many_bytes_are_read_away(acker: AckerProcess, connection: str) -> None:
    """Neither where the connection is to be closed, nor where it is to be kept."""
    sent = 0
    with RawHttp(acker.url) as raw, contextlib.suppress(ConnectionError):
        raw.post(BATCH, KEY_LINE, connection, length=2**40)
        raw.wait_for_answer()
        while sent < 2 * DRAINED:
            raw.send(b" " * MEGABYTE)
            sent += MEGABYTE
    assert sent < DRAINED


@pytest.mark.parametrize("connection", [CLOSE, "Connection: keep-alive"])
def test_no_longer_than_so_long_is_waited_for_the_rest(acker: AckerProcess, connection: str) -> None:
    with RawHttp(acker.url) as raw:
        raw.post(BATCH, KEY_LINE, connection, length=10 * MEGABYTE)
        assert raw.answer()[0] == 413
        raw.trickle_until_closed(b" ", within=4 * BODY_TIMEOUT_S + 5)


def test_what_is_read_away_holds_no_place(acker: AckerProcess) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            raw = stack.enter_context(RawHttp(acker.url))
            raw.post(BATCH, KEY_LINE, CLOSE, length=10 * MEGABYTE)
            raw.wait_for_answer()
        eventually_true(lambda: "acker_requests_in_flight 0.0" in acker.http.get("/metrics").text)


def head(form: str, length: int) -> bytes:
    """Write the head of a batch whose body is too large, and whose connection is closed after it."""
    version = "HTTP/1.0" if form == "HTTP/1.0" else "HTTP/1.1"
    size = "Transfer-Encoding: chunked" if form == "chunked" else f"Content-Length: {length}"
    lines = [f"POST {BATCH} {version}", "Host: localhost", "Content-Type: application/json", KEY_LINE, CLOSE, size]
    return "\r\n".join([*lines, "", ""]).encode()


def piece(form: str, size: int) -> bytes:
    return b"%x\r\n" % size + b" " * size + b"\r\n" if form == "chunked" else b" " * size
