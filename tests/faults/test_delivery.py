"""Completions reach their webhook at least once, whoever dies, at whichever step of the way."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_service.redis.embedded import EmbeddedServer

from tests.support import dying
from tests.support.caller import init
from tests.support.processes import stands_still, thaw
from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve, free_port, valkey
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(300)

FAST = (
    *("--callback-allow-hosts", "127.0.0.1", "--callback-schedule-s", ",".join(["0.2"] * 50)),
    *("--callback-timeout-s", "1", "--tick-ms", "50"),
)
"""A lease lasts three seconds then."""

_numbers = itertools.count(1)


@dataclass
class Spout:
    """A spout task with a webhook, on one acker."""

    acker: AckerProcess
    receiver: Receiver
    topology: str = "default"
    ended: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = f"/v1/topologies/{self.topology}"

    def register(self, url: str) -> None:
        assert self.acker.http.put(self.base).is_success
        assert self.try_to_register(url)

    def try_to_register(self, url: str) -> bool:
        callback = {"kind": "webhook", "url": url}
        return self.acker.http.put(f"{self.base}/spouts/orders", json={"callback": callback}).is_success

    def end(self, count: int) -> None:
        """Let roots end; asks until that is answered."""
        roots = range(len(self.ended) + 1, len(self.ended) + count + 1)
        eventually_true(lambda: self.try_to_end(roots), within=30)
        self.ended += roots

    def try_to_end(self, roots: range) -> bool:
        """Ask for roots to end, under the same key each time: whoever is asked may die before it answers.

        A repeat says what has become of them.
        """
        ops = {"ops": [init(root) for root in roots]}
        try:
            answer = self.acker.http.post(f"{self.base}/batch", json=ops, headers={IDEMPOTENCY_KEY: f"to-{roots.stop}"})
        except httpx.TransportError:
            return False
        assert answer.status_code in {200, 503}, answer.text
        assert answer.status_code == 503 or set(answer.json()["results"]) <= {"acked", "finished"}, answer.text
        return answer.is_success

    @property
    def left(self) -> tuple[int, int] | None:
        """How many wait, and how many dead letters there are; None while nobody can tell."""
        answer = self.acker.http.get(f"{self.base}/spouts/orders")
        assert answer.status_code in {200, 503}, answer.text
        shown = answer.json()
        return (shown["unread"], shown["dead_letters"]) if answer.is_success else None

    @property
    def posted(self) -> list[tuple[str, int]]:
        """The ids and roots of the completions that came, in the order in which they came."""
        posts = [it.document["data"] for it in self.receiver.received]
        assert {(data["topology"], data["spout_task"]) for data in posts} <= {(self.topology, "orders")}
        return [(done["id"], int(done["root_id"], 16)) for data in posts for done in data["completions"]]

    def assert_all_delivered(self, *, within: float = 60.0) -> None:
        """Every root was delivered under one id, and nothing is left."""
        eventually_true(lambda: self.left == (0, 0), within=within)
        assert sorted(root for _, root in set(self.posted)) == self.ended


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def hook(receiver: Receiver) -> Iterator[str]:
    with served(receiver) as port:
        yield f"http://127.0.0.1:{port}/hook"


@dataclass(frozen=True)
class Service:
    """A process that answers, and two that work and fall into the trap."""

    api: AckerProcess
    workers: list[AckerProcess]
    trap: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder, port = tmp_path_factory.mktemp("service"), free_port()
    trap = folder / "trap"
    options = ("--redis-url", f"redis://127.0.0.1:{port}", *FAST)
    with contextlib.ExitStack() as stack:
        stack.enter_context(valkey(folder / "store", port=port))
        api = stack.enter_context(acker_serve(folder, *options, "--role", "api"))
        program = (dying.__file__, str(trap))
        workers = [
            stack.enter_context(acker_serve(folder, *options, "--role", "worker", program=program)) for _ in range(2)
        ]
        yield Service(api, workers, trap)


@pytest.fixture
def spout(service: Service, receiver: Receiver, hook: str) -> Iterator[Spout]:
    """A spout task in a topology of its own, and two workers; one that died is started again."""
    for worker in service.workers:
        if worker.process.poll() is not None:
            worker.start()
            worker.wait_until_ready()
    topology = f"t{next(_numbers)}"
    spout = Spout(service.api, receiver, topology)
    spout.register(hook)
    spout.end(3)
    spout.assert_all_delivered()
    yield spout
    service.trap.unlink(missing_ok=True)
    assert service.api.http.delete(f"{spout.base}?force=true&discard=true").is_success


@pytest.mark.parametrize("step", dying.STEPS)
def test_another_worker_takes_over_from_one_that_dies_at_a_step(step: str, spout: Spout, service: Service) -> None:
    service.trap.write_text(f"{step} SIGKILL")
    spout.end(32)
    eventually_true(lambda: sum(worker.process.poll() is None for worker in service.workers) == 1, within=30)
    assert not service.trap.exists()
    spout.assert_all_delivered()
    spout.end(1)
    spout.assert_all_delivered()


@pytest.mark.parametrize("step", ["after claim", "after post", "before settle a shard"])
def test_a_worker_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on(
    step: str, spout: Spout, service: Service
) -> None:
    """It stands still while it holds the lease."""
    service.trap.write_text(f"{step} SIGSTOP")
    spout.end(8)
    try:
        eventually_true(lambda: sum(stands_still(worker.process.pid) for worker in service.workers) == 1, within=30)
        assert not service.trap.exists()
        spout.assert_all_delivered()
        spout.end(8)
        spout.assert_all_delivered()
    finally:
        for worker in service.workers:
            thaw(worker.process.pid)
    spout.end(8)
    spout.assert_all_delivered()


@pytest.mark.parametrize("step", ["after claim", "after post", "after settle a shard"])
def test_a_process_that_dies_at_a_step_delivers_the_rest_when_it_is_started_again(
    step: str, tmp_path: Path, receiver: Receiver, hook: str
) -> None:
    """Its embedded store dies with it."""
    trap = tmp_path / "trap"
    program = (dying.__file__, str(trap))
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *FAST, program=program) as acker:
        spout = Spout(acker, receiver)
        spout.register(hook)
        spout.end(3)
        spout.assert_all_delivered()
        trap.write_text(f"{step} SIGKILL")
        spout.try_to_end(range(4, 36))
        acker.process.wait(60)
        acker.start()
        acker.wait_until_ready()
        spout.end(32)
        spout.assert_all_delivered()


def test_a_receiver_that_is_killed_and_comes_back_gets_all(tmp_path: Path, receiver: Receiver) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *FAST) as acker:
        spout, port = Spout(acker, receiver), free_port()
        with served(receiver, port=port):
            spout.register(f"http://127.0.0.1:{port}/")
            spout.end(8)
            spout.assert_all_delivered()
        spout.end(8)
        eventually_true(lambda: 'acker_webhook_posts_total{fate="retry"' in acker.http.get("/metrics").text, within=30)
        with served(receiver, port=port):
            spout.assert_all_delivered()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, str]]:
    port = free_port()
    with valkey(tmp_path / "store", port=port) as store:
        yield store, f"redis://127.0.0.1:{port}"


def test_a_store_that_is_killed_and_comes_back_loses_nothing(
    tmp_path: Path, store: tuple[EmbeddedServer, str], receiver: Receiver, hook: str
) -> None:
    server, url = store
    with acker_serve(tmp_path, "--redis-url", url, *FAST) as acker:
        spout = Spout(acker, receiver)
        receiver.plan.extend([Planned(status=500)] * 3)
        spout.register(hook)
        spout.end(8)
        eventually_true(lambda: receiver.received)
        _kill(server)
        asyncio.run(server.start())
        spout.assert_all_delivered()
        spout.end(1)
        spout.assert_all_delivered()


def test_a_store_that_comes_back_empty_delivers_again_within_seconds(
    tmp_path: Path, store: tuple[EmbeddedServer, str], receiver: Receiver, hook: str
) -> None:
    """Long before those who wait for news look without any: that is after half a minute."""
    server, url = store
    with acker_serve(tmp_path, "--redis-url", url, *FAST) as acker:
        spout = Spout(acker, receiver)
        spout.register(hook)
        spout.end(1)
        spout.assert_all_delivered()
        _kill(server)
        shutil.rmtree(tmp_path / "store" / "appendonlydir")
        asyncio.run(server.start())
        eventually_true(lambda: spout.try_to_register(hook), within=60)
        spout.end(1)
        spout.assert_all_delivered(within=25)


def test_a_process_that_is_told_to_stop_settles_what_it_is_sending(
    tmp_path: Path, store: tuple[EmbeddedServer, str], receiver: Receiver, hook: str
) -> None:
    """No post is given up meanwhile, and a lease that nobody gave back would last five minutes."""
    with acker_serve(tmp_path, "--redis-url", store[1], *FAST, "--callback-timeout-s", "300") as acker:
        spout = Spout(acker, receiver)
        spout.register(hook)
        for _ in range(40):
            spout.end(1)
        eventually_true(lambda: receiver.received, within=30)
        assert acker.terminate(within=60) == 0
        acker.start()
        acker.wait_until_ready()
        spout.assert_all_delivered()
    assert len(spout.posted) == len(set(spout.posted))


def _kill(server: EmbeddedServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server._process.wait()
