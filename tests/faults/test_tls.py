"""The limits of a connection hold over TLS: for those that shake no hands, do not read, or send too much."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from acker_service.http.connection import EXTRA_CONNECTIONS

from tests.faults.large_mailbox import COMPLETED, COMPLETIONS, DEFAULT, UNREAD_PAGES, WINDOW, fill
from tests.support.certificates import issue
from tests.support.exposition import read
from tests.support.processes import resident_kib
from tests.support.raw_http import RawHttp, unchecked
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

PAGE = f"GET {COMPLETIONS}?limit={COMPLETED} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
BODY_TIMEOUT_S = 1.0
CONNECTIONS = 20
PLACES = 3
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """Little time, few places and connections, and completions for a full page, which has 5 MB."""
    folder = tmp_path_factory.mktemp("hasty")
    limits = ("--max-in-flight", str(PLACES), "--max-connections", str(CONNECTIONS))
    times = ("--body-timeout-s", str(BODY_TIMEOUT_S))
    with acker_serve(folder, "--redis-url", valkey_url, *limits, *times, *issue(folder).options) as acker:
        fill(acker)
        yield acker


@pytest.fixture
def patient(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """The usual time and places; its memory is measured."""
    folder = tmp_path_factory.mktemp("patient")
    with acker_serve(folder, "--redis-url", valkey_url, *issue(folder).options) as acker:
        fill(acker)
        yield acker


def metric(acker: AckerProcess, name: str, **labels: str) -> float | None:
    return read(acker.http.get("/metrics").text).value(name, **labels)


@contextlib.contextmanager
def silent(acker: AckerProcess, *, count: int = 1) -> Iterator[list[socket.socket]]:
    """Open connections that shake no hands."""
    parts = urlsplit(acker.url)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=20))
            for _ in range(count)
        ]


def test_a_client_that_shakes_no_hands_has_the_time_of_a_request(hasty: AckerProcess) -> None:
    with silent(hasty, count=3) as connections:
        assert [one.recv(1) for one in connections] == [b""] * 3
    eventually_true(lambda: metric(hasty, "acker_connections") == 1)


def test_so_has_one_that_sends_half_of_its_first_message(hasty: AckerProcess) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = unchecked().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    with silent(hasty) as [one]:
        one.sendall(hello[: len(hello) // 2])
        assert one.recv(1) == b""


def test_those_that_shake_no_hands_count_as_connections(hasty: AckerProcess) -> None:
    """Otherwise they could hold every file that the process may open."""
    before = metric(hasty, "acker_overloaded_total", reason="connections") or 0.0
    with silent(hasty, count=CONNECTIONS + EXTRA_CONNECTIONS + 10) as connections:
        ends = sorted(connections, key=lambda one: one.fileno())[-10:]
        assert [one.recv(1) for one in ends] == [b""] * 10
    eventually_true(lambda: metric(hasty, "acker_connections") == 1)
    assert (metric(hasty, "acker_overloaded_total", reason="connections") or 0.0) >= before + 10


def test_one_over_the_limit_is_answered_overloaded(hasty: AckerProcess) -> None:
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawHttp(hasty.url)) for _ in range(CONNECTIONS)]
        assert [one.get("/livez")[0] for one in kept] == [200] * CONNECTIONS
        with RawHttp(hasty.url) as further:
            status, headers, problem = further.get(DEFAULT)
            assert (status, problem["code"], headers["connection"]) == (503, "overloaded", "close")


@pytest.mark.parametrize("asked", [PAGE, PAGE * 2], ids=["one page each", "two pages each"])
def test_an_answer_of_which_nothing_is_taken_is_given_up_and_its_place_is_free(
    hasty: AckerProcess, asked: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(PLACES):
            stack.enter_context(RawHttp(hasty.url, window=WINDOW)).send(asked)
        eventually_true(lambda: metric(hasty, "acker_connections") == 1)
        eventually_true(lambda: metric(hasty, "acker_requests_in_flight") == 0)


def test_an_unread_answer_holds_its_place(patient: AckerProcess) -> None:
    with RawHttp(patient.url, window=WINDOW) as raw:
        raw.send(PAGE)
        raw.wait_for_answer()
        assert metric(patient, "acker_requests_in_flight") == 1
        status, _, page = raw.answer()
        assert (status, len(page["completions"]) > 1_000) == (200, True)
    eventually_true(lambda: metric(patient, "acker_requests_in_flight") == 0)


def test_unread_pages_hold_little_together_and_a_client_that_reads_has_its_page(patient: AckerProcess) -> None:
    """Each page has 5 MB; together they may have 64 MiB, and the oldest are given up."""
    before = resident_kib(patient.process.pid)
    with contextlib.ExitStack() as stack:
        for number in range(UNREAD_PAGES):
            raw = stack.enter_context(RawHttp(patient.url, window=WINDOW))
            raw.send(PAGE * 2)
            raw.wait_for_answer()
            page = patient.http.get(COMPLETIONS, params={"limit": COMPLETED}) if number % 10 == 0 else None
            assert page is None or page.json()["completions"]
        assert resident_kib(patient.process.pid) - before < 300_000
        assert (metric(patient, "acker_overloaded_total", reason="answer_bytes") or 0) >= 10


def test_a_client_that_goes_on_sending_after_a_refusal_sees_it(hasty: AckerProcess) -> None:
    with RawHttp(hasty.url) as raw:
        raw.post(f"{DEFAULT}/batch", "Connection: close", length=20 * MEGABYTE)
        raw.wait_for_answer()
        for _ in range(8):
            raw.send(b" " * MEGABYTE)
        status, headers, problem = raw.answer()
        assert (status, problem["code"], headers["connection"]) == (413, "too_large", "close")
        assert raw.is_closed()


def test_no_more_than_so_many_bytes_are_read_away(hasty: AckerProcess) -> None:
    sent, drained = 0, 16 * 4 * MEGABYTE * 2
    with RawHttp(hasty.url) as raw, contextlib.suppress(OSError):
        raw.post(f"{DEFAULT}/batch", length=2**40)
        raw.wait_for_answer()
        while sent < 2 * drained:
            raw.send(b" " * MEGABYTE)
            sent += MEGABYTE
    assert sent < drained


@pytest.mark.parametrize("junk", [b"\x00" * 100, b"\x16\x03\x01\x40\x01" + b"\xff" * 20_000, b"\x80" * 5])
def test_what_is_no_handshake_ends_the_connection(hasty: AckerProcess, junk: bytes) -> None:
    with silent(hasty) as [one], contextlib.suppress(ConnectionError):
        one.sendall(junk)
        while one.recv(4_096):
            pass
    assert metric(hasty, "acker_connections") == 1


def test_bytes_that_no_key_has_encrypted_end_the_connection(hasty: AckerProcess) -> None:
    """What came before is answered."""
    with RawHttp(hasty.url) as raw:
        assert raw.get("/livez")[0] == 200
        raw._socket._sslobj = None  # from here on without TLS
        raw.send(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with contextlib.suppress(OSError):
            while raw._socket.recv(4_096):
                pass
    eventually_true(lambda: metric(hasty, "acker_connections") == 1)
