"""Tests a batch that is collected under one root, on an acker in memory."""

import threading

import pytest
from acker_client import Acker, AsyncAcker, DuplicateKey, TupleClosed
from acker_client._core.collection import Collection
from acker_client._core.keep_alive import reset_interval
from acker_client.propagate import inject
from acker_client.roots import RootInfo
from acker_client.testing import MemoryAcker
from acker_client.topologies import Topology
from acker_protocol.operations import Init


def test_the_batch_completes_when_its_block_has_ended_and_all_children_are_acked(acker: Acker, service: MemoryAcker):
    with acker.collect("hour-13") as batch:
        early, late = batch.headers(key="a"), batch.headers(key="b")
        acker.receive(early, component="load").ack()
        assert service.completions("batches") == []
    assert service.completions("batches") == []
    acker.receive(late, component="load").ack()
    assert service.completions("batches") == ["hour-13"]


def test_the_block_holds_the_root_open_though_all_children_are_acked(acker: Acker, service: MemoryAcker):
    with acker.collect("hour-13", spout="hours") as batch:
        acker.receive(batch.headers(), component="load").ack()
        assert service.completions("hours") == []
    assert service.completions("hours") == ["hour-13"]


def test_an_empty_batch_completes_at_the_end_of_its_block(acker: Acker, service: MemoryAcker):
    with acker.collect("hour-13"):
        assert service.completions("batches") == []
    assert service.completions("batches") == ["hour-13"]


def test_the_init_is_sent_before_the_block_so_that_a_dead_process_times_out(acker: Acker, service: MemoryAcker, time):
    with acker.collect("hour-13", message_timeout=5) as batch:
        [init] = [operation for operation in service.applied if isinstance(operation, Init)]
        assert (init.message_timeout_ms, f"{init.root_id:016x}") == (5_000, batch.root_id)


def test_a_block_that_raises_fails_the_batch(acker: Acker, service: MemoryAcker):
    def failing() -> None:
        with acker.collect("hour-13"):
            raise ValueError("half of it")

    with pytest.raises(ValueError, match="half of it"):
        failing()
    assert service.store.mailboxes["batches"][0][1]["reason"] == "half of it"


def test_a_batch_may_end_when_all_have_ended_some_of_them_failed(acker: Acker, service: MemoryAcker):
    with acker.collect("hour-13", end_on="all_ended") as batch:
        first, second = batch.headers(key="a"), batch.headers(key="b")
        acker.receive(first, component="load").fail("no price")
    assert service.completions("batches") == []
    acker.receive(second, component="load").ack()
    [(_, completion)] = service.store.mailboxes["batches"]
    assert (completion["outcome"], completion["failures"]) == ("failed", 1)


def test_a_block_that_raises_counts_among_the_failures_of_a_batch_that_ends_when_all_have(
    acker: Acker, service: MemoryAcker
):
    children: list[dict[str, str]] = []

    def failing() -> None:
        with acker.collect("hour-13", end_on="all_ended") as batch:
            children.append(batch.headers(key="a"))
            raise ValueError("half of it")

    with pytest.raises(ValueError, match="half of it"):
        failing()
    assert service.completions("batches") == []
    acker.receive(children[0], component="load").ack()
    [(_, completion)] = service.store.mailboxes["batches"]
    assert (completion["outcome"], completion["failures"], completion["reason"]) == ("failed", 1, "half of it")


def test_the_batch_is_current_in_its_block(acker: Acker, service: MemoryAcker):
    with acker.collect("hour-13"):
        inject(headers := {})
    assert service.completions("batches") == []
    acker.receive(headers, component="load").ack()
    assert service.completions("batches") == ["hour-13"]


def test_nothing_is_anchored_to_a_sealed_batch(acker: Acker):
    with acker.collect("hour-13") as batch:
        batch.anchor(key="a")
        with pytest.raises(DuplicateKey):
            batch.headers(key="a")
    for anchor in (batch.anchor, batch.headers):
        with pytest.raises(TupleClosed, match="is sealed"):
            anchor()


def test_sealing_waits_for_a_child_that_another_thread_is_making(acker: Acker):
    """Else the ack of the block could leave it out, and the batch would be done too early."""
    making, go_on = threading.Event(), threading.Event()

    class Slow:
        def headers(self, _key):
            making.set()
            assert go_on.wait(20)
            return {}

    batch = Collection(Slow(), message_id="hour-13", root_id="00000000000000a1")
    producer = threading.Thread(target=batch.headers)
    sealer = threading.Thread(target=batch.seal)
    producer.start()
    assert making.wait(20)
    sealer.start()
    sealer.join(0.05)
    assert sealer.is_alive()
    go_on.set()
    sealer.join(20)
    producer.join(20)
    assert not sealer.is_alive()


def test_many_threads_anchor_to_one_batch(acker: Acker, service: MemoryAcker):
    found = []
    with acker.collect("hour-13") as batch:
        threads = [threading.Thread(target=lambda: found.extend(batch.headers() for _ in range(100))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with acker.batch():
        for headers in found:
            assert service.completions("batches") == []
            acker.receive(headers, component="load").ack()
    assert len(found) == 800
    assert service.completions("batches") == ["hour-13"]


@pytest.mark.anyio
async def test_a_program_of_tasks_collects_likewise(async_acker: AsyncAcker, service: MemoryAcker):
    async with async_acker.collect("hour-13") as batch:
        inject(injected := {})
        headers = [batch.headers(key="a"), injected]
    for each in headers:
        assert service.completions("batches") == []
        await async_acker.receive(each, component="load").ack()
    assert service.completions("batches") == ["hour-13"]
    with pytest.raises(TupleClosed):
        batch.headers()


def topology(**timeouts: float | None) -> Topology:
    known = {"message_timeout": 30.0, "progress_timeout": None} | timeouts
    return Topology(
        name="x", ackers=1, max_spout_pending=None, dedupe_window=0, retention=60, idempotency_window=600,
        pending=0, unread=0, counts={}, **known,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("timeouts", "deadlines", "interval"),
    [
        ({}, [], 10),
        ({"progress_timeout": 6.0}, [], 2),
        ({}, [1_012.0, None, 1_021.0], 4),
        ({}, [900.0], 1),
        ({"message_timeout": 0.3}, [900.0], 0.1),
    ],
    ids=["topology", "progress", "shorter root", "clock ahead", "very short"],
)
def test_the_timeout_is_reset_at_a_third_of_the_shortest(timeouts, deadlines, interval):
    roots = [RootInfo(root_id="a1", state="pending", deadline_at=at) for at in deadlines]
    assert reset_interval(topology(**timeouts), roots, now_s=1_000.0) == pytest.approx(interval)
