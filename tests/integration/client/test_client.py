"""Tests the client on the whole service: what the acker in memory promises for it is kept."""

from collections.abc import AsyncIterator

import httpx
import pytest
from acker_client import AckersFixed, AsyncAcker, OperationState, Outcome, TupleClosed, UnknownTopology
from acker_client.config import SystemClock
from acker_client.root import Root

pytestmark = pytest.mark.anyio


@pytest.fixture
async def acker(api: httpx.AsyncClient) -> AsyncIterator[AsyncAcker]:
    async with AsyncAcker("http://127.0.0.1", transport=api._transport, emit_timeout=2, linger=0) as acker:
        yield acker


async def told(spout, **reading):
    return [(done.message_id, done.outcome) async for done in spout.completions(until=0.2, poll_timeout=0.1, **reading)]


async def test_a_tree_is_acked_and_told_once(acker):
    spout = acker.spout("orders")
    async with spout.emit(message_id="42", message_timeout=60) as root:
        headers = root.headers("split")
    async with acker.receive(headers, component="split") as tup:
        children = [tup.headers(word) for word in ("liu", "guan")]
    for child in children:
        async with acker.receive(child, component="count"):
            pass
    assert await told(spout) == [("42", Outcome.ACKED)]
    assert await told(spout) == []


async def test_a_failure_is_told_with_reason_and_component(acker):
    spout = acker.spout("orders")
    async with spout.emit(message_id="42") as root:
        tup = acker.receive(root.headers("split"), component="split")
    assert await acker.reset_timeout(tup) == [OperationState.PENDING]
    assert await acker.fail(tup, reason="no such word") == [OperationState.FAILED]
    [done] = [done async for done in spout.completions(until=0)]
    assert (done.root_id, done.reason, done.component) == (root.root_id, "no such word", "split")
    with pytest.raises(TupleClosed):
        await acker.ack(tup)


async def test_a_batch_is_answered_word_by_word(acker):
    spout = acker.shared_spout("orders")
    roots: list[Root] = []
    async with acker.batch() as batch:
        for message_id in ("1", "2"):
            async with spout.emit(message_id=message_id) as root:
                await acker.ack(acker.receive(root.headers(), component="split"))
            roots.append(root)
    assert [answer.state for answer in batch.results] == [
        OperationState.EARLY,
        OperationState.ACKED,
        OperationState.EARLY,
        OperationState.ACKED,
    ]
    found: list[str | None] = []
    async for done in spout.completions(page_size=1, until=60, stop=lambda: len(found) == 2):
        found.append(done.message_id)  # noqa: PERF401 - stop looks at it meanwhile
    assert sorted(found) == ["1", "2"]


async def test_a_refused_init_is_placed_once_there_is_room(acker, api):
    await api.put("/v1/topologies/default", json={"max_spout_pending": 1})
    spout = acker.spout("orders")
    async with spout.emit(message_id="1") as root:
        tup = acker.receive(root.headers(), component="split")
    waited: list[float] = []

    class Acking(SystemClock):
        async def sleep_async(self, seconds: float) -> None:
            waited.append(seconds)
            await acker.ack(tup)

    other = AsyncAcker("http://127.0.0.1", transport=api._transport, clock=Acking())
    async with other, other.spout("orders").emit(message_id="2") as root:
        root.anchor()
    assert len(waited) == 1


async def test_a_spout_that_has_not_emitted_has_nothing_to_read(acker):
    assert await told(acker.spout("nobody")) == []


async def test_a_stop_leaves_the_other_pages_unread(acker):
    spout = acker.spout("orders")
    for message_id in "abcd":
        async with spout.emit(message_id=message_id):
            pass
    first: list[str | None] = []
    async for done in spout.completions(stop=lambda: len(first) > 0, page_size=2):
        first.append(done.message_id)  # noqa: PERF401 - stop looks at it meanwhile
    rest = [message_id for message_id, _ in await told(spout)]
    assert len(first) == 2
    assert sorted([*first, *rest]) == list("abcd")


async def test_what_is_acked_twice_on_a_topology_that_nobody_configured_is_done_once(acker, api):
    """On `default`, and on one that is created by its name: both have an automatic dedupe window."""
    await acker.topologies.create("fresh")
    for name in ("default", "fresh"):
        async with AsyncAcker("http://127.0.0.1", name, transport=api._transport, linger=0) as own:
            assert (await own.topologies.get(name)).dedupe_automatic
            async with own.spout("orders").emit("42", message_timeout=3_600) as root:
                headers = [root.anchor(key).headers() for key in ("a", "b")]
            for header in (headers[0], headers[0], headers[1]):
                await own.receive(header, component="bill").ack()
            assert (await own.roots.get(root.root_id)).outcome == "acked"


async def test_topologies_and_roots_of_a_real_service_are_read_and_changed(acker):
    made = await acker.topologies.create(
        "fresh",
        ackers=2,
        message_timeout=90,
        max_spout_pending=5,
        dedupe_window=600.5,
        retention=700,
        root_details=False,
        trace=0.01,
        grace=2.5,
    )
    assert (made.name, made.ackers, made.message_timeout, made.progress_timeout) == ("fresh", 2, 90.0, None)
    assert (made.max_spout_pending, made.dedupe_window, made.retention) == (5, 600.5, 700.0)
    assert (made.root_details, made.trace, made.grace) == (False, 0.01, 2.5)
    changed = await acker.topologies.create("fresh", message_timeout=100)
    assert (changed.ackers, changed.message_timeout, changed.dedupe_window) == (2, 100.0, 600.5)
    assert await acker.topologies.get("fresh") == changed
    with pytest.raises(AckersFixed):
        await acker.topologies.create("fresh", ackers=3)
    await acker.topologies.delete("fresh")
    with pytest.raises(UnknownTopology):
        await acker.topologies.get("fresh")
    async with acker.spout("orders").emit("42", message_timeout=60) as root:
        headers = root.headers()
    found = await acker.roots.get(root.root_id)
    assert (found.state, found.message_id, found.outstanding, found.outcome) == ("pending", "42", 1, None)
    await acker.ack(acker.receive(headers, component="bill"))
    assert (await acker.roots.get(root.root_id)).outcome is Outcome.ACKED
