"""What `fsync` demands of Redis."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_protocol.operations import Init, OperationState
from acker_service.components import Components
from acker_service.operations.batch import SingleOperation
from acker_service.operations.request import ApplyRequest
from acker_service.redis.durability import read_durability
from acker_service.topologies.topology import Topology
from redis.exceptions import RedisError, ResponseError

from tests.support.redis_side import everywhere
from tests.support.stores import Member, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    with running("valkey", tmp_path) as store:
        yield store.members[0]


@pytest.fixture
async def synced(member: Member) -> AsyncIterator[Components]:
    store = _store(member)
    yield store
    await store.close()


def _store(member: Member, *, asserted: bool = False, login: str = "") -> Components:
    url, durability = f"redis://{login}127.0.0.1:{member.port}", read_durability("fsync")
    return Components(url, window_ms=600_000, durability=durability, fsync_asserted=asserted)


async def test_fsync_refuses_a_redis_without_an_append_only_file(synced: Components) -> None:
    with pytest.raises(ValueError, match="appendonly yes"):
        await synced.open()


async def test_fsync_refuses_a_redis_that_syncs_once_a_second(member: Member, synced: Components) -> None:
    member.ask("CONFIG SET", "appendonly", "yes")
    with pytest.raises(ValueError, match="appendfsync always"):
        await synced.open()


async def test_fsync_takes_no_inits_once_redis_syncs_less(member: Member, synced: Components) -> None:
    member.ask("CONFIG SET", "appendonly", "yes", "appendfsync", "always")
    await synced.open()
    await synced.backpressure.refresh()
    assert not synced.backpressure.is_store_full
    await everywhere(synced, "CONFIG SET", "appendfsync", "everysec")
    await synced.backpressure.refresh()
    assert synced.backpressure.is_store_full


SYNCS = ("--appendonly", "yes", "--appendfsync", "always")
ROOTS = 1_200
"""So many that their commands are read in several parts, between which Redis answers."""
SLOW_LOAD = ("--key-load-delay", "500")
"""Microseconds that each command takes when the file is read."""
SOON_BUSY = ("--busy-reply-threshold", "1")
"""Milliseconds from which on a function that runs lets others be answered BUSY."""
ENDLESS = "#!lua name=endless\nredis.register_function('endless', function() while true do end end)"


def restart(member: Member, *options: str) -> None:
    """Start a server anew with further options."""
    member.stop()
    member.options = (*member.options, *options)
    member.start()


async def emit(parts: Components, topology: Topology, root_id: int) -> OperationState:
    """Emit a root under a spout task that is known. Raises `StoreUnavailable`."""
    operation = Init(root_id=root_id, spout_task="s", ack_val=root_id, outstanding=1)
    request = ApplyRequest(endpoint="init", operations=SingleOperation(operation), key=None)
    [result] = (await parts.applier.apply(topology, request)).results
    return result.state


async def test_a_store_that_was_killed_is_not_full_while_it_loads_its_data(member: Member, synced: Components) -> None:
    """Redis says that it keeps no append-only file while it reads it."""
    restart(member, *SYNCS, *SLOW_LOAD)
    await synced.open()
    topology = await synced.registry.get("default")
    for root_id in range(1, ROOTS):
        assert await emit(synced, topology, root_id) is OperationState.PENDING
    member.stop()
    starting = asyncio.create_task(asyncio.to_thread(member.start))
    states, said, was_full = set[OperationState](), set[str](), False
    while not starting.done():
        try:
            await synced.backpressure.refresh()
        except StoreUnavailable as error:
            said.add(error.detail)
        was_full |= synced.backpressure.is_store_full
        with contextlib.suppress(StoreUnavailable):
            states.add(await emit(synced, topology, 1))
    await starting
    states.add(await emit(synced, topology, ROOTS))
    assert not was_full
    assert "the store loads its data" in said
    assert states <= {OperationState.DUPLICATE, OperationState.PENDING}


async def test_a_store_that_was_frozen_within_a_function_hides_no_configuration(
    member: Member, synced: Components
) -> None:
    """It answers BUSY when it goes on, which is over as soon as the function ends."""
    restart(member, *SYNCS, *SOON_BUSY)
    await synced.open()
    member.ask("FUNCTION", "LOAD", ENDLESS)
    calling = asyncio.create_task(asyncio.to_thread(member.ask, "FCALL", "endless", 0))
    await eventually(partial(is_busy, member))
    member.process.send_signal(signal.SIGSTOP)
    asking = asyncio.create_task(synced.backpressure._requirements._fsync_policies())
    member.process.send_signal(signal.SIGCONT)
    with pytest.raises(StoreUnavailable):
        await asking
    member.ask("FUNCTION", "KILL")
    with contextlib.suppress(RedisError):
        await calling
    await synced.backpressure.refresh()
    assert not synced.backpressure.is_store_full


async def is_busy(member: Member) -> bool:
    try:
        await asyncio.to_thread(member.ask, "PING")
    except ResponseError as error:
        return str(error).startswith("BUSY")
    return False


async def test_where_redis_does_not_tell_an_operator_has_to_vouch(member: Member) -> None:
    member.ask("CONFIG SET", "appendonly", "yes", "appendfsync", "always")
    member.ask("ACL SETUSER", "managed", "on", ">pw", "~acker:*", "&acker:*", "+@all", "-config")
    closed = _store(member, login="managed:pw@")
    with pytest.raises(ValueError, match="ACKER_FSYNC_ASSERTED"):
        await closed.open()
    await closed.close()
    vouched = _store(member, login="managed:pw@", asserted=True)
    await vouched.open()
    assert "default" in await vouched.registry.names()
    await vouched.close()
