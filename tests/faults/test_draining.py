"""At SIGTERM an acker drains: it answers on while its callers open connections elsewhere, and no request fails."""

import contextlib
import http.client
import json
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.raw_http import RawHttp
from tests.support.relay import Relay, relayed
from tests.support.servers import AckerProcess, acker_serve, valkey
from tests.support.waiting import eventually_true

DRAIN_S = 3.0
LEAVES_S = 1.0
"""How long after the signal the Service still sends new connections to the acker that stops."""
DEFAULT = "/v1/topologies/default"
COMPLETIONS = f"{DEFAULT}/spouts/orders/completions"
EVENTS = {"Accept": "text/event-stream"}
DRAINS = ("--shutdown-drain-s", str(DRAIN_S))
SLOWLY_S = 60.0
"""A drain that is over only after all that a test does in it, however slow the machine."""
WAIT_S = 20
"""How long a long poll waits for a completion that does not come."""


@dataclass
class Record:
    """What all callers met, by their kind; nothing counts any more once the test is ``over``."""

    stopped_at: float = float("inf")
    over: bool = False
    answers: dict[str, int] = field(default_factory=dict)
    late_answers: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def answer(self, kind: str) -> None:
        late = time.monotonic() > self.stopped_at
        counts = self.late_answers if late else self.answers
        counts[kind] = counts.get(kind, 0) + 1

    def fault(self, kind: str, what: object) -> None:
        if not self.over:
            self.faults.append(f"{kind}, {time.monotonic() - self.stopped_at:.3f} s after the signal: {what!r}")


class RawCaller:
    """Calls by http.client, which never looks at a kept connection before it uses it again."""

    def __init__(self, record: Record, kind: str, port: int, *, keeps: bool) -> None:
        self._record = record
        self._kind = kind
        self._port = port
        self._keeps = keeps
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """Send a request, and return its body, empty if it failed."""
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        self._connection = connection
        try:
            encoded = None if body is None else json.dumps(body)
            connection.request(method, path, encoded, {"Content-Type": "application/json"} | headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._record.fault(self._kind, error)
            self.close()
            return b""
        if answer.status not in (200, 201):
            self._record.fault(self._kind, content)
        self._record.answer(self._kind)
        if answer.will_close or not self._keeps:
            self.close()
        return content

    def close(self) -> None:
        """Leave the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def take_roots(record: Record, port: int, *, kind: str, keeps: bool, pause_s: float) -> None:
    with contextlib.closing(RawCaller(record, kind, port, keeps=keeps)) as caller:
        while not record.over:
            root, edge = secrets.token_hex(8), secrets.token_hex(8)
            caller.call("POST", f"{DEFAULT}/init", {"root_id": root, "spout_task": "orders", "edges": [edge]})
            caller.call("POST", f"{DEFAULT}/ack", {"root_id": root, "edge_id": edge})
            time.sleep(pause_s)


def poll(record: Record, port: int, *, kind: str, task: str) -> None:
    """Read a mailbox again and again by long polls: a busy one, or one that stays empty."""
    after = ""
    with contextlib.closing(RawCaller(record, kind, port, keeps=True)) as caller:
        while not record.over:
            page = caller.call("GET", f"{DEFAULT}/spouts/{task}/completions?wait_ms=10000{after}")
            after = f"&after={json.loads(page)['cursor']}" if page else after


def stream(record: Record, port: int) -> None:
    """Follow a mailbox; a stream that has ended is begun again, on the same connection if that is kept."""
    with contextlib.closing(RawCaller(record, "event stream", port, keeps=True)) as caller:
        while not record.over:
            caller.call("GET", COMPLETIONS, **EVENTS)
            time.sleep(0.05)


def take_roots_by_httpx(record: Record, port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        while not record.over:
            body = {"root_id": secrets.token_hex(8), "spout_task": "orders", "edges": [secrets.token_hex(8)]}
            try:
                answer = client.post(f"{DEFAULT}/init", json=body)
                record.answer("httpx")
                if not answer.is_success:
                    record.fault("httpx", answer.text)
            except httpx.HTTPError as error:
                record.fault("httpx", error)
            time.sleep(0.01)


@contextlib.contextmanager
def calling(record: Record, relay: Relay) -> Iterator[None]:
    """Have callers of all kinds until the block is left."""
    work: list[Callable[[], None]] = [
        lambda: take_roots(record, relay.port, kind="fresh", keeps=False, pause_s=0.01),
        *[lambda: take_roots(record, relay.port, kind="raw kept", keeps=True, pause_s=0.005)] * 3,
        lambda: take_roots(record, relay.port, kind="raw kept, seldom", keeps=True, pause_s=0.7),
        lambda: poll(record, relay.port, kind="long poll", task="orders"),
        lambda: poll(record, relay.port, kind="long poll, empty", task="quiet"),
        lambda: stream(record, relay.port),
        lambda: take_roots_by_httpx(record, relay.port),
    ]
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        record.over = True
        relay.cut()
        for thread in threads:
            thread.join()


def port_of(acker: AckerProcess) -> int:
    return int(acker.url.rpartition(":")[2])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_no_request_of_any_caller_fails_when_a_replica_ends(tmp_path: Path, processes: str) -> None:
    record = Record()
    with (
        valkey(tmp_path / "store") as store,
        acker_serve(tmp_path / "a", "--redis-url", store.url, *DRAINS, "--processes", processes) as leaving,
        acker_serve(tmp_path / "b", "--redis-url", store.url) as staying,
        relayed(port_of(leaving)) as relay,
    ):
        for task in ("orders", "quiet"):
            assert leaving.http.put(f"{DEFAULT}/spouts/{task}", json={}).is_success
        with calling(record, relay):
            eventually_true(lambda: len(record.answers) >= 5)
            time.sleep(0.3)
            leaving.process.send_signal(signal.SIGTERM)
            record.stopped_at = time.monotonic()
            time.sleep(LEAVES_S)  # of the Service, not of the acker
            relay.lead_to(port_of(staying))
            assert leaving.process.wait(20) == 0
            took = time.monotonic() - record.stopped_at
            before = dict(record.late_answers)
            eventually_true(lambda: record.late_answers["fresh"] > before["fresh"] + 5)
        assert record.faults == []
        assert took >= DRAIN_S
        assert record.late_answers.keys() == {
            "fresh", "raw kept", "raw kept, seldom", "long poll", "long poll, empty", "event stream", "httpx",
        }  # fmt: skip
        log = leaving.log.read_text()
    assert "Traceback" not in log
    assert "graceful shutdown exceeded" not in log


@pytest.fixture
def drain_s() -> float:
    return SLOWLY_S


@pytest.fixture
def acker(tmp_path: Path, drain_s: float) -> Iterator[AckerProcess]:
    """An acker that drains for as long; at the end of the test a second signal ends it."""
    options = ("--data-dir", str(tmp_path / "data"), "--shutdown-drain-s", str(drain_s))
    with acker_serve(tmp_path, *options) as running:
        yield running


def stop(acker: AckerProcess) -> float:
    """Send SIGTERM, and wait until the acker has noticed, and return when."""
    now = time.monotonic()
    acker.process.send_signal(signal.SIGTERM)
    eventually_true(lambda: acker.http.get("/readyz").status_code == 503)
    return now


@pytest.mark.parametrize("drain_s", [10.0])
def test_an_idle_connection_is_kept_while_it_drains_and_its_next_answer_is_the_last(
    acker: AckerProcess, drain_s: float
) -> None:
    with RawHttp(acker.url) as used, RawHttp(acker.url) as idle:
        assert "connection" not in used.get("/livez")[1]
        idle.get("/livez")
        stopped_at = stop(acker)
        assert used.get("/readyz")[::2] == (503, {"status": "stopping"})
        assert used.is_closed()
        with RawHttp(acker.url) as fresh:
            assert fresh.get("/livez")[1]["connection"] == "close"
            assert fresh.is_closed()
        assert idle.is_closed()
        assert time.monotonic() - stopped_at >= drain_s


def test_a_stream_ends_and_its_connection_takes_one_more_request(acker: AckerProcess) -> None:
    assert acker.http.put(f"{DEFAULT}/spouts/orders", json={}).is_success
    connection = http.client.HTTPConnection(acker.url.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", COMPLETIONS, headers=EVENTS)
        streaming = connection.getresponse()
        stop(acker)
        assert streaming.read().endswith(b"retry: 1000\n\n")
        assert not streaming.will_close
        connection.request("GET", "/livez")
        last = connection.getresponse()
        assert (last.status, last.headers["connection"]) == (200, "close")


def test_a_poll_that_waits_is_answered_at_once_and_a_later_one_after_a_second(acker: AckerProcess) -> None:
    poll_ = f"{COMPLETIONS}?wait_ms={WAIT_S * 1_000}"
    assert acker.http.put(f"{DEFAULT}/spouts/orders", json={}).is_success
    with RawHttp(acker.url) as early, RawHttp(acker.url) as late:
        early.send(f"GET {poll_} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert late.get("/livez")[0] == 200
        stopped_at = stop(acker)
        assert early.answer()[1]["connection"] == "close"
        assert time.monotonic() - stopped_at < WAIT_S
        asked_at = time.monotonic()
        assert late.get(poll_)[1]["connection"] == "close"
        assert 0.9 <= time.monotonic() - asked_at < WAIT_S


@pytest.mark.parametrize("drain_s", [10.0])
def test_a_stream_that_comes_while_it_drains_ends_before_it_does(acker: AckerProcess) -> None:
    assert acker.http.put(f"{DEFAULT}/spouts/orders", json={}).is_success
    stop(acker)
    with acker.http.stream("GET", COMPLETIONS, headers=EVENTS) as streaming:
        assert streaming.headers["connection"] == "close"
        assert "".join(streaming.iter_text()).endswith("retry: 1000\n\n")
    assert acker.process.wait(20) == 0
    assert "graceful shutdown exceeded" not in acker.log.read_text()


@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]]
)
def test_ctrl_c_or_a_second_signal_ends_it_without_draining(acker: AckerProcess, signals: list[signal.Signals]) -> None:
    with RawHttp(acker.url) as idle:
        idle.get("/livez")
        began_at = time.monotonic()
        for number in signals:
            acker.process.send_signal(number)
            time.sleep(0.1)  # two signals of one kind at once would be one
        assert idle.is_closed()
        assert acker.process.wait(SLOWLY_S) == 0
        assert time.monotonic() - began_at < SLOWLY_S


def test_a_worker_does_not_drain(tmp_path: Path) -> None:
    with (
        valkey(tmp_path / "store") as store,
        acker_serve(
            tmp_path, "--redis-url", store.url, "--role", "worker", "--shutdown-drain-s", str(SLOWLY_S)
        ) as worker,
    ):
        worker.process.send_signal(signal.SIGTERM)
        began_at = time.monotonic()
        assert worker.process.wait(SLOWLY_S) == 0
        assert time.monotonic() - began_at < SLOWLY_S
