"""Completions reach their webhook at least once, whoever dies, at whichever step of the way."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acker_service.store.embedded import Embedded

from tests.support import dying
from tests.support.caller import init
from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve, free_port, valkey
from tests.support.waiting import eventually_true

DEFAULT = "/v1/topologies/default"
SPOUT = f"{DEFAULT}/spouts/orders"
FAST = (
    *("--callback-allow-hosts", "127.0.0.1", "--callback-schedule-s", ",".join(["0.2"] * 50)),
    *("--callback-timeout-s", "1", "--tick-ms", "50"),
)
"""A lease lasts three seconds then."""


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def hook(receiver: Receiver) -> Iterator[str]:
    with served(receiver) as port:
        yield f"http://127.0.0.1:{port}/hook"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Embedded, str]]:
    port = free_port()
    with valkey(tmp_path / "store", port=port) as store:
        yield store, f"redis://127.0.0.1:{port}"


def end(acker: AckerProcess, *roots: int) -> None:
    """Let roots end."""
    answer = acker.http.post(f"{DEFAULT}/batch", json={"ops": [init(root) for root in roots]})
    assert answer.json()["results"] == ["acked"] * len(roots)


def register(acker: AckerProcess, url: str) -> None:
    assert acker.http.put(SPOUT, json={"callback": webhook(url)}).is_success


def webhook(url: str) -> dict[str, str]:
    return {"kind": "webhook", "url": url}


def told(receiver: Receiver) -> dict[str, int]:
    """Give the ids of the completions that came, each with its root."""
    posts = [it.document["data"]["completions"] for it in receiver.received]
    return {done["id"]: int(done["root_id"], 16) for post in posts for done in post}


def unread(acker: AckerProcess) -> int:
    return int(acker.http.get(SPOUT).json()["unread"])


def assert_all_told(acker: AckerProcess, receiver: Receiver, roots: list[int], *, within: float = 20.0) -> None:
    """Every root was told, each under one id, and nothing is left."""
    eventually_true(lambda: unread(acker) == 0, within=within)
    assert sorted(told(receiver).values()) == roots
    counts = acker.http.get(SPOUT).json()
    assert counts["dead_letters"] == 0


@pytest.mark.parametrize("step", dying.STEPS)
def test_a_worker_that_dies_at_a_step_loses_nothing(
    step: str, tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    trap = tmp_path / "trap"
    program = (dying.__file__, step, "SIGKILL", str(trap))
    with (
        acker_serve(tmp_path, "--redis-url", store[1], "--role", "api", *FAST) as api,
        acker_serve(tmp_path, "--redis-url", store[1], "--role", "worker", *FAST, program=program) as worker,
    ):
        register(api, hook)
        end(api, *range(1, 9))
        assert_all_told(api, receiver, [*range(1, 9)])
        trap.touch()
        end(api, *range(9, 41))
        worker.process.wait(20)
        assert not trap.exists()
        worker.start()
        assert_all_told(api, receiver, [*range(1, 41)])
        end(api, 41)
        assert_all_told(api, receiver, [*range(1, 42)])


@pytest.mark.parametrize("step", ["after take", "after post", "after settle a shard"])
def test_another_worker_takes_over_from_one_that_died_at_a_step(
    step: str, tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    trap = tmp_path / "trap"
    program = (dying.__file__, step, "SIGKILL", str(trap))
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(acker_serve(tmp_path, "--redis-url", store[1], "--role", "api", *FAST))
        options = ("--redis-url", store[1], "--role", "worker", *FAST)
        workers = [stack.enter_context(acker_serve(tmp_path, *options, program=program)) for _ in range(2)]
        register(api, hook)
        end(api, 1)
        assert_all_told(api, receiver, [1])
        trap.touch()
        end(api, *range(2, 34))
        eventually_true(lambda: any(worker.process.poll() is not None for worker in workers))
        assert_all_told(api, receiver, [*range(1, 34)])
        assert sum(worker.process.poll() is None for worker in workers) == 1


@pytest.mark.parametrize("step", ["after take", "after post"])
def test_a_worker_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on(
    step: str, tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    """It stands still with the lease in its hand."""
    trap = tmp_path / "trap"
    program = (dying.__file__, step, "SIGSTOP", str(trap))
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(acker_serve(tmp_path, "--redis-url", store[1], "--role", "api", *FAST))
        options = ("--redis-url", store[1], "--role", "worker", *FAST)
        workers = [stack.enter_context(acker_serve(tmp_path, *options, program=program)) for _ in range(2)]
        register(api, hook)
        end(api, 1)
        assert_all_told(api, receiver, [1])
        trap.touch()
        end(api, *range(2, 10))
        try:
            eventually_true(lambda: not trap.exists())
            assert_all_told(api, receiver, [*range(1, 10)])
            end(api, *range(10, 18))
            assert_all_told(api, receiver, [*range(1, 18)])
            assert sum(_stands_still(worker) for worker in workers) == 1
        finally:
            for worker in workers:
                worker.process.send_signal(signal.SIGCONT)
        end(api, *range(18, 26))
        assert_all_told(api, receiver, [*range(1, 26)])


def _stands_still(acker: AckerProcess) -> bool:
    return Path(f"/proc/{acker.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_receiver_that_is_killed_and_comes_back_gets_all(tmp_path: Path, receiver: Receiver) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *FAST) as acker:
        with served(receiver) as port:
            register(acker, f"http://127.0.0.1:{port}/")
            end(acker, *range(1, 9))
            assert_all_told(acker, receiver, [*range(1, 9)])
        end(acker, *range(9, 17))
        eventually_true(lambda: 'acker_webhook_posts_total{fate="retry"' in acker.http.get("/metrics").text)
        with served(receiver, port=port):
            assert_all_told(acker, receiver, [*range(1, 17)])


def test_a_store_that_is_killed_and_comes_back_loses_nothing(
    tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    server, url = store
    with acker_serve(tmp_path, "--redis-url", url, *FAST) as acker:
        receiver.plan.extend([Planned(status=500)] * 3)
        register(acker, hook)
        end(acker, *range(1, 9))
        eventually_true(lambda: receiver.received)
        _kill(server)
        asyncio.run(server.start())
        eventually_true(lambda: acker.http.get("/readyz").is_success)
        assert_all_told(acker, receiver, [*range(1, 9)])
        end(acker, 9)
        assert_all_told(acker, receiver, [*range(1, 10)])


def test_a_store_that_comes_back_empty_delivers_again_within_seconds(
    tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    server, url = store
    with acker_serve(tmp_path, "--redis-url", url, *FAST) as acker:
        register(acker, hook)
        end(acker, 1)
        assert_all_told(acker, receiver, [1])
        _kill(server)
        shutil.rmtree(tmp_path / "store" / "appendonlydir")
        asyncio.run(server.start())
        eventually_true(lambda: acker.http.put(SPOUT, json={"callback": webhook(hook)}).is_success)
        end(acker, 2)
        assert_all_told(acker, receiver, [1, 2], within=5)


def test_a_process_that_is_told_to_stop_settles_what_it_is_sending(
    tmp_path: Path, store: tuple[Embedded, str], receiver: Receiver, hook: str
) -> None:
    options = ("--redis-url", store[1], *FAST)
    with acker_serve(tmp_path, *options) as acker:
        register(acker, hook)
        for root in range(1, 40):
            end(acker, root)
        eventually_true(lambda: receiver.received)
        assert acker.terminate() == 0
        acker.start()
        acker.wait_until_ready()
        assert_all_told(acker, receiver, [*range(1, 40)], within=5)
    posts = [done["id"] for it in receiver.received for done in it.document["data"]["completions"]]
    assert len(posts) == len(set(posts))


def _kill(server: Embedded) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server._process.wait()
