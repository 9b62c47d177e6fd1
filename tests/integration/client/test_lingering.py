"""Acks that linger, in programs of their own, that end, fork and are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from acker_client import Acker, Outcome
from acker_client.testing import Clock

from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

FOR_EVER_S = 86_400

BEGIN = """
import asyncio, multiprocessing, os, sys
from acker_client import Acker, AsyncAcker
url, *headers = sys.argv[1:]
def ack(acker, *numbers):
    for number in numbers:
        acker.ack(acker.receive({"Acker-Anchors": headers[number]}, component="count"))
acker = Acker(url, linger=86400)
"""

ENDS = {
    "by reaching its end": "ack(acker, 0, 1)",
    "by sys.exit": "ack(acker, 0, 1); sys.exit(3)",
    "by an exception": "ack(acker, 0, 1); 1 / 0",
    "by KeyboardInterrupt": "ack(acker, 0, 1); raise KeyboardInterrupt",
    "with its block": "\nwith acker: ack(acker, 0, 1)",
    "with a loop that leaves acks behind": """
async def main():
    acker = AsyncAcker(url, linger=86400)
    for number in (0, 1):
        await acker.ack(acker.receive({"Acker-Anchors": headers[number]}, component="count"))
asyncio.run(main())
""",
    "as a forked worker of multiprocessing": """
worker = multiprocessing.get_context("fork").Process(target=ack, args=(acker, 0, 1))
worker.start(); worker.join()
os._exit(0)
""",
}

FORKS = {
    "each sends at its end": """
ack(acker, 0)
child = os.fork()
if not child:
    ack(acker, 2)
    sys.exit(0)
os.waitpid(child, 0)
acker.flush()
ack(acker, 1)
""",
    "while acks linger": """
quick = Acker(url, linger=0.02)
ack(quick, 0)
child = os.fork()
if not child:
    ack(quick, 2)
    quick.flush()
    os._exit(0)
os.waitpid(child, 0)
quick.flush()
ack(quick, 1)
""",
}
"""Acks 0 and 1 are of one root: if the child sent 0 too, its edge would be in the ack val once more, for ever."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as service:
        yield service


@pytest.fixture
def acker(service: AckerProcess) -> Iterator[Acker]:
    with Acker(service.url, linger=FOR_EVER_S) as acker:
        yield acker


def emit(acker: Acker, message_id: str, edges: int = 1, **timeouts: int) -> list[str]:
    """Emit a root with so many edges, and return the header of each."""
    with acker.spout("orders").emit(message_id=message_id, **timeouts) as root:
        return [root.headers()["Acker-Anchors"] for _ in range(edges)]


def told(acker: Acker, count: int) -> dict[str | None, Outcome]:
    """Read until so many roots were told of."""
    found: dict[str | None, Outcome] = {}
    for done in acker.spout("orders").completions(stop=lambda: len(found) >= count, poll_timeout=1, until=30):
        found[done.message_id] = done.outcome
    return found


def run(program: str, url: str, headers: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + program, url, *headers]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_ends_has_sent_what_it_acked(acker: Acker, service: AckerProcess, end: str) -> None:
    headers = emit(acker, "1") + emit(acker, "2")
    ended = run(ENDS[end], service.url, headers)
    assert told(acker, 2) == {"1": Outcome.ACKED, "2": Outcome.ACKED}, ended.stderr


@pytest.mark.parametrize("fork", FORKS)
def test_after_a_fork_the_parent_keeps_what_was_gathered_and_the_child_starts_empty(
    acker: Acker, service: AckerProcess, fork: str
) -> None:
    headers = emit(acker, "1", edges=2, message_timeout=10) + emit(acker, "2", message_timeout=10)
    ended = run(FORKS[fork], service.url, headers)
    assert told(acker, 2) == {"1": Outcome.ACKED, "2": Outcome.ACKED}, ended.stderr


def test_a_forked_child_makes_connections_of_its_own(acker: Acker) -> None:
    emit(acker, "1")
    parents = acker._driver._connected()
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, b"the parent's" if acker._driver._connected() is parents else b"its own")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"its own"
    assert acker._driver._connected() is parents


def test_a_program_that_is_killed_has_acked_nothing_that_lingered(acker: Acker, service: AckerProcess) -> None:
    [header] = emit(acker, "1", message_timeout=1)
    ended = run("ack(acker, 0); os.kill(os.getpid(), 9)", service.url, [header])
    assert ended.returncode == -signal.SIGKILL
    assert told(acker, 1) == {"1": Outcome.TIMED_OUT}


def test_a_program_that_cannot_deliver_says_so_at_its_end(acker: Acker, service: AckerProcess) -> None:
    [header] = emit(acker, "1", message_timeout=1)
    program = """
acker = Acker(url, linger=86400, retry_timeout=0)
ack(acker, 0)
acker._driver._connected().send = Acker("http://127.0.0.1:1")._driver._connected().send
"""
    ended = run(program, service.url, [header])
    assert "acks were not delivered before the program ended" in ended.stderr
    assert "1 operations" in ended.stderr
    assert told(acker, 1) == {"1": Outcome.TIMED_OUT}


class Counting(httpx.HTTPTransport):
    """Counts the requests that go out with acks."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += request.url.path.endswith(("/ack", "/batch"))
        return super().handle_request(request)


def test_a_thousand_acks_of_one_root_cost_one_operation_on_the_wire(acker: Acker, service: AckerProcess) -> None:
    headers = emit(acker, "1", edges=1_000)
    transport = Counting()
    with Acker(service.url, linger=FOR_EVER_S, transport=transport) as bolt:
        for header in headers:
            bolt.ack(bolt.receive({"Acker-Anchors": header}, component="count"))
    assert transport.sent == 1
    assert told(acker, 1) == {"1": Outcome.ACKED}


def test_on_a_topology_that_dedupes_a_redelivered_ack_changes_nothing(service: AckerProcess) -> None:
    service.http.put("/v1/topologies/deduping", json={"dedupe_window_ms": 60_000})
    with Acker(service.url, topology="deduping", linger=FOR_EVER_S) as acker:
        one, two = emit(acker, "1", edges=2)
        for header in (one, one, two, one):
            acker.ack(acker.receive({"Acker-Anchors": header}, component="count"))
        acker.flush()
        assert told(acker, 1) == {"1": Outcome.ACKED}


def test_acks_that_linger_while_the_service_is_killed_arrive_when_it_is_back(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as service, Acker(service.url) as acker:
        headers = [header for number in range(50) for header in emit(acker, str(number), edges=4)]
        for count, header in enumerate(headers):
            if count == len(headers) // 2:
                service.kill()
            acker.ack(acker.receive({"Acker-Anchors": header}, component="count"))
        assert acker.stats().in_flight > 0
        service.start()
        acker.flush()
        assert acker.stats().lost == 0
        assert told(acker, 50) == {str(number): Outcome.ACKED for number in range(50)}


def test_a_name_of_its_own_is_ephemeral_at_the_service(acker: Acker, service: AckerProcess) -> None:
    emit(acker, "1")
    found = service.http.get(f"/v1/topologies/default/spouts/{acker.spout('orders').name}").json()
    assert found["ephemeral"] is True


def test_an_emit_waits_for_a_free_place_before_its_block(service: AckerProcess) -> None:
    service.http.put("/v1/topologies/capped", json={"max_spout_pending": 1, "message_timeout_ms": 500})
    with Acker(service.url, topology="capped") as acker:
        emit(acker, "1")
        with acker.spout("orders").emit(message_id="2"):
            found = service.http.get(f"/v1/topologies/capped/spouts/{acker.spout('orders').name}").json()
        assert found["pending"] == 0


def test_roots_of_a_topology_that_was_discarded_are_told_as_timed_out(service: AckerProcess) -> None:
    time = Clock()
    service.http.put("/v1/topologies/gone", json={})
    with Acker(service.url, topology="gone", clock=time, linger=0) as acker:
        emit(acker, "1")
        service.http.delete("/v1/topologies/gone", params={"force": "true", "discard": "true"})
        time.advance(60)
        assert next(acker.spout("orders").completions()).outcome is Outcome.TIMED_OUT


def test_a_lost_pid_is_not_mistaken_for_the_parents(acker: Acker) -> None:
    names = {acker.spout("orders").name}
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, acker.spout("orders").name.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 200).decode() not in names
    eventually_true(lambda: acker.stats().in_flight == 0)
