"""`acker serve` under clients that ask and do not read, or read far too slowly."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.faults.large_mailbox import COMPLETED, COMPLETIONS, DEFAULT, UNREAD_PAGES, WINDOW, fill
from tests.support.exposition import read
from tests.support.keys import bearer, keys_file
from tests.support.processes import resident_kib
from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

EVENTS = "Accept: text/event-stream"
KEY = f"Authorization: {bearer('admin')['Authorization']}"
BODY_TIMEOUT_S = 1.0
CLIENTS = 3
PLACES = CLIENTS

STREAMS = 20
TOPOLOGIES = 60


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """Little time and few places, keys, and completions for a full page, which has 5 MB."""
    folder = tmp_path_factory.mktemp("hasty")
    places = ("--max-in-flight", str(PLACES), "--max-waiting", str(PLACES))
    options = ("--body-timeout-s", str(BODY_TIMEOUT_S), "--keys-file", str(keys_file(folder, "admin")))
    with acker_serve(folder, "--redis-url", valkey_url, *places, *options) as acker:
        acker.http.headers.update(bearer("admin"))
        fill(acker)
        yield acker


@pytest.fixture
def patient(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    """The usual time and places; new for each test, for its memory is measured."""
    with acker_serve(tmp_path_factory.mktemp("patient"), "--redis-url", valkey_url) as acker:
        fill(acker)
        yield acker


def make_topologies(acker: AckerProcess) -> None:
    """Make so many that the text of the metrics has over 100 KB."""
    for number in range(TOPOLOGIES):
        assert acker.http.put(f"/v1/topologies/scraped-{number}").is_success


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


PAGE = get(f"{COMPLETIONS}?limit={COMPLETED}", KEY)
UNREAD = {
    "one page each": PAGE,
    "two pages each": PAGE * 2,
    "a page and a close": get(f"{COMPLETIONS}?limit={COMPLETED}", KEY, "Connection: close"),
    "a page of a long poll": get(f"{COMPLETIONS}?limit={COMPLETED}&wait_ms=60000", KEY),
    "a page and many small ones": PAGE + get(DEFAULT, KEY) * 50,
    "what needs no key": get("/openapi.json") * 200,
    "event streams": get(f"{COMPLETIONS}?limit={COMPLETED}", KEY, EVENTS),
    "event streams after the first event": get(COMPLETIONS, KEY, EVENTS),
    "refusals": get(DEFAULT) * 20_000,
    "metrics": get("/metrics") * 200,
}
WITHIN_S = {"refusals": 40.0, "metrics": 120.0}
"""Thousands of small answers, until no more fit the kernel's buffers, take a busy machine a while; so do the metrics,
which are written once a second."""


@pytest.mark.parametrize("asked", UNREAD)
def test_an_answer_of_which_nothing_is_taken_is_given_up_and_its_place_is_free(hasty: AckerProcess, asked: str) -> None:
    if asked == "metrics":  # the last: their text has to be large, and others need no topologies beside theirs
        make_topologies(hasty)
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            raw = stack.enter_context(RawHttp(hasty.url, window=WINDOW))
            with contextlib.suppress(OSError):
                raw.send(UNREAD[asked])
        assert_given_up(hasty, within=WITHIN_S.get(asked, 10.0))


@pytest.mark.parametrize("asked", ["one page each", "a page and many small ones", "event streams"])
def test_so_is_one_to_a_client_that_has_ended_its_side(hasty: AckerProcess, asked: str) -> None:
    with RawHttp(hasty.url, window=WINDOW) as raw:
        raw.send(UNREAD[asked])
        raw.wait_for_answer()
        raw.end()
        assert_given_up(hasty, within=10)


def assert_given_up(acker: AckerProcess, *, within: float) -> None:
    """Wait until only the connection that asks is open, and then until no request has a place any more."""
    eventually_true(lambda: connections(acker) == 1, within=within)
    places = ("acker_requests_in_flight", "acker_requests_waiting")
    eventually_true(lambda: all(metric(acker, place) == 0 for place in places), within=within)


@pytest.mark.parametrize("step", [50_000, 20_000], ids=["a quarter of a megabyte a second", "a tenth"])
def test_an_answer_that_is_not_whole_after_four_times_that_is_given_up(hasty: AckerProcess, step: int) -> None:
    """Reading goes on all the while; the page would take twenty seconds and more."""
    with RawHttp(hasty.url, window=WINDOW) as raw:
        raw.send(PAGE)
        read_slowly(raw, step, seconds=8 * BODY_TIMEOUT_S)
        assert connections(hasty) == 1
    assert hasty.http.get(DEFAULT).is_success


def test_an_answer_that_is_read_late_but_in_time_is_whole(hasty: AckerProcess) -> None:
    with RawHttp(hasty.url, window=WINDOW) as raw:
        raw.send(PAGE)
        raw.wait_for_answer()
        status, _, page = raw.answer()
    assert (status, page) == (200, hasty.http.get(COMPLETIONS, params={"limit": COMPLETED}).json())


@pytest.mark.parametrize("step", [300_000, 100_000])
def test_a_stream_that_is_read_slowly_is_not_given_up(hasty: AckerProcess, step: int) -> None:
    """It is never whole: its time is that of the events that wait to be taken, not that of the stream.

    At half a megabyte a second the kernel takes nothing from the acker for longer than the timeout.
    """
    with RawHttp(hasty.url, window=WINDOW) as raw:
        raw.send(get(COMPLETIONS, KEY, EVENTS))
        read_slowly(raw, step, seconds=6 * BODY_TIMEOUT_S)
        assert raw.read(500_000).count(b"event: completion") > 100


def test_unread_event_streams_hold_little(patient: AckerProcess) -> None:
    """They read 100 completions at a time, however many are asked for."""
    before = resident_kib(patient.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS):
            raw = stack.enter_context(RawHttp(patient.url, window=WINDOW))
            raw.send(get(f"{COMPLETIONS}?limit={COMPLETED}", EVENTS))
            raw.wait_for_answer()
        eventually_true(lambda: metric(patient, "acker_event_streams") == STREAMS)
        assert (resident_kib(patient.process.pid) - before) / STREAMS < 2_048


def test_unread_pages_hold_little_together_and_a_client_that_reads_has_its_page(patient: AckerProcess) -> None:
    """Each page has 5 MB; together they may have 64 MiB, and the oldest are given up."""
    before = resident_kib(patient.process.pid)
    with contextlib.ExitStack() as stack:
        for number in range(UNREAD_PAGES):
            raw = stack.enter_context(RawHttp(patient.url, window=WINDOW))
            raw.send(get(f"{COMPLETIONS}?limit={COMPLETED}") * 2)
            raw.wait_for_answer()
            page = patient.http.get(COMPLETIONS, params={"limit": COMPLETED}) if number % 10 == 0 else None
            assert page is None or page.json()["completions"]
        assert resident_kib(patient.process.pid) - before < 300_000
        assert (given_up(patient) or 0) >= 10


def test_unread_metrics_hold_little_together_and_who_reads_has_them(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> None:
    """Together they may have 4 MiB, and the oldest are given up."""
    bounds = ("--max-in-flight-bytes", "4194304", "--max-body-bytes", "65536")
    with acker_serve(tmp_path_factory.mktemp("scraped"), "--redis-url", valkey_url, *bounds) as acker:
        make_topologies(acker)
        size = len(acker.http.get("/metrics").content)
        with contextlib.ExitStack() as stack:
            for _ in range(2 * 4_194_304 // size):
                raw = stack.enter_context(RawHttp(acker.url, window=WINDOW))
                raw.send(get("/metrics") * 200)
            eventually_true(lambda: (given_up(acker) or 0) >= 10, within=WITHIN_S["metrics"])
            assert "acker_roots_pending" in acker.http.get("/metrics").text


def given_up(acker: AckerProcess) -> float | None:
    return read(acker.http.get("/metrics").text).value("acker_overloaded_total", reason="answer_bytes")


def metric(acker: AckerProcess, name: str) -> float | None:
    return read(acker.http.get("/metrics").text).value(name)


def connections(acker: AckerProcess) -> float | None:
    """Those that are open, with the one that asks."""
    return metric(acker, "acker_connections")


def read_slowly(raw: RawHttp, step: int, *, seconds: float) -> None:
    """Read ``step`` bytes five times a second, until the connection ends or the time is over."""
    until = time.monotonic() + seconds
    while raw.read(step) and time.monotonic() < until:
        time.sleep(0.2)
