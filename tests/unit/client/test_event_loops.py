"""Tests an async client whose event loops end, one after the other."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from acker_client import AsyncAcker, ClientClosed, OperationsLost, ReplayPolicy, UsageError
from acker_client.testing import MemoryAcker

from tests.support.waiting import eventually

LONG_S = 1_000.0
"""An ack that lingers so long is sent by nothing but a flush."""


@pytest.fixture
def memory():
    return MemoryAcker(dedupe_window=600)


@pytest.fixture
def acker(memory):
    """The client of a module."""
    return memory.async_acker(linger=LONG_S)


@contextmanager
def closing_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that is closed without its tasks being cancelled, as `asyncio.run` would do it."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


async def run_tree(acker: AsyncAcker, name: str) -> None:
    """Emit a root and ack its tuple, which lingers."""
    async with acker.shared_spout("orders").emit(name) as root:
        headers = root.headers()
    async with acker.receive(headers, component="charge"):
        await asyncio.sleep(0)


def test_each_run_of_asyncio_ends_when_its_acks_are_sent(memory, acker):
    for number in range(5):
        asyncio.run(run_tree(acker, f"{number}"))
        assert memory.completions("orders") == [f"{each}" for each in range(number + 1)]
    assert (acker.stats().in_flight, acker.stats().lost) == (0, 0)


def test_a_run_that_ends_right_after_its_ack_sends_it(memory, acker):
    """The task in the background has hardly begun when it is cancelled."""

    async def ack_and_end() -> None:
        async with acker.shared_spout("orders").emit("42") as root:
            headers = root.headers()
        await acker.receive(headers, component="charge").ack()

    asyncio.run(ack_and_end())
    assert memory.completions("orders") == ["42"]


def test_a_run_that_raises_sends_its_acks(memory, acker):
    async def raise_error() -> None:
        await run_tree(acker, "42")
        raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        asyncio.run(raise_error())
    assert memory.completions("orders") == ["42"]


def test_what_a_loop_leaves_that_cancels_nothing_goes_with_the_next_loop(memory, acker):
    with closing_loop() as first:
        first.run_until_complete(run_tree(acker, "1"))
    assert memory.completions("orders") == []
    with closing_loop() as second:
        second.run_until_complete(run_tree(acker, "2"))
        second.run_until_complete(acker.flush())
    assert sorted(memory.completions("orders")) == ["1", "2"]


def test_the_next_loop_sends_what_is_left_though_it_acks_nothing(memory):
    acker = memory.async_acker(linger=0.001)
    with closing_loop() as first:
        first.run_until_complete(run_tree(acker, "1"))

    async def ask() -> None:
        await acker.topologies.get("default")
        await eventually(is_acked)

    async def is_acked() -> bool:
        return memory.completions("orders") == ["1"]

    with closing_loop() as second:
        second.run_until_complete(ask())


@pytest.fixture
def no_garbage_is_collected() -> Iterator[None]:
    """Collect garbage only where the test says so."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_is_collected")
def test_a_task_that_is_destroyed_with_its_loop_waits_for_no_lock(memory, acker):
    """Python collects garbage wherever something is made, also while a thread holds the lock of the buffer."""

    async def begin_to_flush() -> None:
        await run_tree(acker, "1")
        acker._driver._sender.send = wait_for_ever
        asyncio.get_running_loop().create_task(acker.flush())
        await asyncio.sleep(0)

    def collect_garbage() -> None:
        with acker._submitter.flusher.buffer.held:
            gc.collect()

    with closing_loop() as first:
        first.run_until_complete(begin_to_flush())
    collecting = threading.Thread(target=collect_garbage, daemon=True)
    collecting.start()
    collecting.join(20)
    assert not collecting.is_alive()
    with closing_loop() as second:
        second.run_until_complete(acker.flush())
    assert memory.completions("orders") == ["1"]


async def wait_for_ever(_: object) -> None:
    """Send nothing, and get no answer."""
    await asyncio.Event().wait()


def test_loops_take_turns(memory, acker):
    with closing_loop() as one, closing_loop() as other:
        for number, loop in enumerate((one, other, one, other)):
            loop.run_until_complete(run_tree(acker, f"{number}"))
        other.run_until_complete(acker.flush())
    assert sorted(memory.completions("orders")) == ["0", "1", "2", "3"]


def test_use_in_a_second_loop_that_runs_at_the_same_time_is_refused_at_the_first_call(memory, acker):
    used, ending = threading.Event(), threading.Event()

    async def hold() -> None:
        await run_tree(acker, "first")
        used.set()
        await asyncio.to_thread(ending.wait)
        await run_tree(acker, "third")

    holder = threading.Thread(target=lambda: asyncio.run(hold()))
    holder.start()
    used.wait()
    for use in (run_tree(acker, "second"), acker.flush(), acker.topologies.get("default"), receive(acker)):
        with pytest.raises(UsageError, match="make a client for each loop"):
            asyncio.run(use)
    ending.set()
    holder.join()
    asyncio.run(run_tree(acker, "fourth"))
    assert memory.completions("orders") == ["first", "third", "fourth"]


async def receive(acker: AsyncAcker) -> None:
    acker.receive({}, component="charge")


def test_a_spout_reads_replays_and_collects_in_each_loop(memory, acker):
    spout = acker.shared_spout("orders")

    async def read() -> list[str | None]:
        return [completion.message_id async for completion in spout.completions(until=0)]

    for number in range(3):
        asyncio.run(run_tree(acker, f"{number}"))
        assert asyncio.run(read()) == [f"{number}"]

    sent = []

    async def send(root, payload) -> None:
        sent.append(payload)
        await acker.receive(root.headers(), component="charge").ack()

    for number in range(3):
        replay = spout.replay(send, ReplayPolicy(max_attempts=2))
        asyncio.run(replay.emit(f"replayed {number}", number))
        asyncio.run(replay.run(until=0))
        assert replay.pending == 0
    assert sent == [0, 1, 2]

    async def collect(name: str) -> None:
        async with acker.collect(name, spout="batches"):
            await asyncio.sleep(0)

    for name in "ab":
        asyncio.run(collect(name))
    assert memory.completions("batches") == ["a", "b"]


def test_a_client_that_was_closed_is_so_in_each_loop(acker):
    asyncio.run(acker.close())
    with pytest.raises(ClientClosed):
        asyncio.run(run_tree(acker, "42"))


def test_acks_that_the_end_of_a_loop_cannot_deliver_are_lost_and_said(memory):
    acker = memory.async_acker(linger=LONG_S)

    async def ack() -> None:
        await run_tree(acker, "42")
        memory.faults += [httpx.ReadTimeout("lost")] * 1_000

    asyncio.run(ack())
    memory.faults.clear()
    assert acker.stats().lost == 1
    with pytest.raises(OperationsLost):
        asyncio.run(acker.flush())


def test_a_child_of_a_fork_runs_loops_of_its_own(memory, acker):
    asyncio.run(run_tree(acker, "parent"))
    read, write = os.pipe()
    if not (child := os.fork()):
        asyncio.run(run_tree(acker, "child"))
        os.write(write, ",".join(memory.completions("orders")).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"parent,child"
    asyncio.run(run_tree(acker, "parent again"))
    assert memory.completions("orders") == ["parent", "parent again"]
