"""What `fsync` demands of Redis."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from acker_service.components import Components
from acker_service.redis.durability import read_durability

from tests.support.redis_side import everywhere
from tests.support.stores import Member, running

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
