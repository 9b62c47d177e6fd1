"""A store states the layout of its keys and records; one of another layout is refused before anything is loaded."""

from collections.abc import AsyncIterator

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.components import Components
from acker_service.redis import keys, library
from redis.asyncio import Redis

from tests.support.redis_side import at, everywhere, flush, on_server_of

pytestmark = pytest.mark.anyio

OWN = library.layout(library.source())


@pytest.fixture
async def empty(valkey_url: str) -> AsyncIterator[Components]:
    """The parts of a service that was not opened yet, on an empty store without a library."""
    parts = Components(valkey_url, window_ms=600_000)
    await flush(parts)
    await everywhere(parts, "FUNCTION", "FLUSH")
    yield parts
    await flush(parts)
    await everywhere(parts, "FUNCTION LOAD", "REPLACE", library.source())
    await parts.close()


async def plant(parts: Components, layout: int) -> None:
    """Leave what a release with another layout leaves: topologies, and its number."""
    await on_server_of(parts, keys.TOPOLOGIES, "SADD", keys.TOPOLOGIES, "orders")
    await on_server_of(parts, keys.LAYOUT, "SET", keys.LAYOUT, layout)


@pytest.mark.parametrize("layout", [OWN - 1, OWN + 1])
async def test_a_store_of_another_layout_is_refused_in_words_and_left_alone(empty: Components, layout: int) -> None:
    await plant(empty, layout)
    with pytest.raises(ValueError, match=f"layout {layout} of keys.* needs layout {OWN}: empty the store"):
        await empty.open()
    assert not any(await everywhere(empty, "FUNCTION", "LIST"))


async def test_a_service_that_began_before_its_store_answered_refuses_another_layout_at_its_first_call(
    empty: Components,
) -> None:
    await plant(empty, OWN + 1)
    with pytest.raises(StoreUnavailable, match=f"layout {OWN + 1}") as raised:
        await empty.registry.refresh("orders")
    assert not raised.value.retryable
    assert not any(await everywhere(empty, "FUNCTION", "LIST"))


async def test_an_empty_store_gets_the_layout_with_its_first_topology(empty: Components) -> None:
    await empty.open()
    await empty.registry.refresh("default")
    assert await at(empty, "GET", keys.LAYOUT) == str(OWN).encode()
    await empty.open()


async def test_a_store_that_was_emptied_while_it_was_served_states_its_layout_again(empty: Components) -> None:
    await empty.open()
    await flush(empty)
    await empty.registry.refresh("default")
    assert await at(empty, "GET", keys.LAYOUT) == str(OWN).encode()


async def test_a_store_that_another_process_begins_meanwhile_is_not_of_another_layout(
    empty: Components, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas start together on an empty store: one of them makes the first topology while the others look."""
    other, execute = Components(valkey_url, window_ms=600_000), Redis.execute_command
    await other.open()
    looked: list[str] = []

    async def execute_and_begin(self: Redis, *command: str, **options: object) -> object:
        reply = await execute(self, *command, **options)
        if command == ("GET", keys.LAYOUT):
            looked.append(keys.LAYOUT)
            await other.registry.refresh("default")
        return reply

    monkeypatch.setattr(Redis, "execute_command", execute_and_begin)
    await empty.open()
    assert looked
    await other.close()
