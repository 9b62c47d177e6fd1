"""A store whose memory is full: inits are refused, everything pending still ends, and it goes on once there is room."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState
from acker_service.components import Components
from acker_service.operations.request import ApplyRequest
from acker_service.redis.embedded import EmbeddedServer
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.cursors import completion_list, decode_cursor
from acker_service.topologies.topology import Topology

from tests.support.columns import batch_of
from tests.support.documents import documents
from tests.support.redis_side import everywhere, used_memory

pytestmark = pytest.mark.anyio

ROOM = 6_000_000
FILLER = 32_000_000


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Components]:
    """A store on a Valkey of its own with little memory."""
    embedded = EmbeddedServer(tmp_path / "valkey")
    await embedded.start()
    parts = Components(embedded.url, window_ms=600_000)
    await parts.open()
    await parts.registry.create_or_update("small", lambda _: TopologyConfig(ackers=2, buckets=16))
    used = await used_memory(parts)
    await everywhere(parts, "CONFIG", "SET", "maxmemory", used + ROOM)
    yield parts
    await parts.close()
    await embedded.stop()


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=root_id, outstanding=1, message_id="x" * 1_000)


async def send(
    parts: Components, topology: Topology, *messages: Operation, key: str | None = None
) -> Sequence[OperationState]:
    reply = await parts.applier.apply(topology, ApplyRequest(endpoint="batch", operations=batch_of(messages), key=key))
    return [answer.state for answer in reply.results]


async def fill(parts: Components, topology: Topology) -> list[int]:
    """Send inits until one is refused; give the root ids of those that were not."""
    pending: list[int] = []
    for first in range(1, 100_000, 100):
        roots = range(first, first + 100)
        words = await send(parts, topology, *map(init, roots))
        pending += [root for root, word in zip(roots, words, strict=True) if word is OperationState.PENDING]
        if OperationState.STORE_FULL in words:
            return pending
    raise AssertionError("the store was never full")


async def told(parts: Components, topology: Topology) -> dict[int, str]:
    spout = await parts.spouts.get(topology, "s")
    cursor, found = decode_cursor(None, completion_list(topology, spout)), {}
    while (reading := await parts.mailboxes.read(topology, spout, cursor, 1_000)).count:
        found |= {int(done["root_id"], 16): done["outcome"] for done in documents(reading)}
        cursor = reading.cursor
    await parts.mailboxes.release(topology, spout, cursor)
    return found


async def test_pending_roots_end_and_inits_are_taken_again_once_there_is_room(small: Components) -> None:
    topology = await small.registry.get("small")
    pending = await fill(small, topology)
    acked, failed = pending[::2], pending[1::2]
    for root in acked:
        assert await send(small, topology, Ack(root_id=root, ack_val=root, outstanding=-1)) == [OperationState.ACKED]
    for root in failed:
        assert await send(small, topology, Fail(root_id=root, reason="why not")) == [OperationState.FAILED]
    assert await told(small, topology) == dict.fromkeys(acked, "acked") | dict.fromkeys(failed, "failed")
    assert await send(small, topology, init(1 << 40)) == [OperationState.PENDING]


async def test_a_batch_that_is_refused_for_memory_is_applied_but_for_its_inits(small: Components) -> None:
    topology = await small.registry.get("small")
    pending = await fill(small, topology)
    used = await used_memory(small)
    await everywhere(small, "CONFIG", "SET", "maxmemory", used - 1_000_000)
    root, other = pending[0], pending[2]
    batch = (Ack(root_id=root, ack_val=root, outstanding=-1), init((1 << 40) + 1), init(other))
    assert await send(small, topology, *batch, key="k") == [
        OperationState.ACKED,
        OperationState.STORE_FULL,
        OperationState.DUPLICATE,
    ]
    assert await send(small, topology, *batch, key="k") == [
        OperationState.FINISHED,
        OperationState.MAX_SPOUT_PENDING,
        OperationState.PENDING,
    ]


async def test_an_ack_of_an_unknown_root_is_refused_as_soon_as_redis_has_no_memory(small: Components) -> None:
    """Redis itself refuses the call, before the service has seen that the store is full."""
    topology = await small.registry.get("small")
    await send(small, topology, init(7))
    unknown, known = Ack(root_id=8, ack_val=1), Ack(root_id=7, ack_val=7, outstanding=-1)
    used = await used_memory(small)
    await everywhere(small, "CONFIG", "SET", "maxmemory", used - 100_000)
    assert await send(small, topology, unknown, Fail(root_id=8), known) == [
        OperationState.STORE_FULL,
        OperationState.STORE_FULL,
        OperationState.ACKED,
    ]
    await everywhere(small, "CONFIG", "SET", "maxmemory", 0)
    assert await send(small, topology, unknown) == [OperationState.EARLY]


async def test_inits_are_refused_before_memory_is_at_its_end(small: Components) -> None:
    topology = await small.registry.get("small")
    await everywhere(small, "CONFIG", "SET", "maxmemory", 0)
    # Beside the filler, what connections take in is nothing. The server makes it: a filler that is sent counts
    # twice until the server shrinks the buffer of its connection, within a second.
    await everywhere(small, "SETRANGE", "filler", FILLER - 1, "x")
    used = await used_memory(small)
    await everywhere(small, "CONFIG", "SET", "maxmemory", int(used / 0.95))
    await small.backpressure.refresh()
    assert await send(small, topology, init(1)) == [OperationState.STORE_FULL]
    await everywhere(small, "CONFIG", "SET", "maxmemory", used * 2)
    await small.backpressure.refresh()
    assert await send(small, topology, init(1)) == [OperationState.PENDING]


async def test_time_passes_in_a_full_store(small: Components) -> None:
    topology = await small.registry.get("small")
    await send(small, topology, Init(root_id=7, spout_task="s", ack_val=7, outstanding=1, message_timeout_ms=100))
    used = await used_memory(small)
    await everywhere(small, "CONFIG", "SET", "maxmemory", used - 100_000)
    found: dict[int, str] = {}
    async with asyncio.timeout(30):
        while not found:
            await small.expiry.expire(topology)
            found = await told(small, topology)
    assert found == {7: "timed_out"}


async def test_a_store_that_evicts_is_refused(small: Components) -> None:
    await everywhere(small, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(ValueError, match="evicts"):
        await small.open()


async def test_a_store_that_begins_to_evict_takes_no_inits(small: Components) -> None:
    topology = await small.registry.get("small")
    await everywhere(small, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    await small.backpressure.refresh()
    assert await send(small, topology, init(1)) == [OperationState.STORE_FULL]


async def test_acks_are_applied_beside_an_init_under_a_new_name_that_has_no_room(small: Components) -> None:
    topology = await small.registry.get("small")
    pending = await fill(small, topology)
    used = await used_memory(small)
    await everywhere(small, "CONFIG", "SET", "maxmemory", used - 1_000_000)
    root = pending[0]
    new = Init(root_id=(1 << 40) + 1, spout_task="new", ack_val=1, outstanding=1)
    batch = (Ack(root_id=root, ack_val=root, outstanding=-1), new)
    assert await send(small, topology, *batch, key="k") == [OperationState.ACKED, OperationState.STORE_FULL]
    await everywhere(small, "CONFIG", "SET", "maxmemory", used * 2)
    assert await send(small, topology, *batch, key="k") == [OperationState.FINISHED, OperationState.MAX_SPOUT_PENDING]
