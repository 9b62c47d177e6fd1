"""Waiting for completions: who waits is woken by news, by the end of the wait, and by the end of the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import anyio
import httpx
import pytest
from acker_service.app import make_app
from acker_service.background import cancel_and_wait
from acker_service.components import Components
from acker_service.redis import keys
from acker_service.settings import Settings

from tests.support.caller import Caller, Document, ack, init
from tests.support.redis_side import everywhere
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")
LONGEST = 60_000
LISTEN, SWEEP = 0, 1


@pytest.fixture
async def replica(parts: Components, valkey_url: str) -> AsyncIterator[Caller]:
    """A second replica of the service on the same store."""
    second = Components(valkey_url, window_ms=600_000)
    transport = httpx.ASGITransport(app=make_app(second, Settings(), asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://replica.localhost") as client:
        yield Caller(client)
    await second.close()


async def soon(awaited: Awaitable[T]) -> T:
    """Return what is awaited; it has to come long before the longest wait ends."""
    with anyio.fail_after(40):
        return await awaited


async def waiting(parts: Components, call: Caller, **query: object) -> "asyncio.Task[Document]":
    """Begin to wait, and return the reading once it does wait."""
    reading = asyncio.create_task(call.completions(**query))

    async def waits() -> bool:
        assert not reading.done(), reading.result()
        return bool(parts.mailbox_notifier._mailboxes) and await listened(parts)

    await eventually(waits)
    return reading


async def listened(parts: Components) -> bool:
    """Whether somebody listens to the hints, or nobody is meant to."""
    if parts.mailbox_notifier._tasks[LISTEN].done():
        return True
    listening = await everywhere(parts, "PUBSUB SHARDNUMSUB", keys.hints("default", 0))
    return any(count for found in listening for _, count in found)


async def without(parts: Components, task: int) -> None:
    """End one of the two ways to learn of news."""
    await cancel_and_wait(parts.mailbox_notifier._tasks[task])


async def test_what_is_there_is_given_without_waiting(call: Caller) -> None:
    await call.post(init(1))
    assert await soon(call.outcomes(wait_ms=LONGEST)) == [(1, "acked")]


async def test_a_wait_ends_with_nothing_when_its_time_is_over(call: Caller, parts: Components) -> None:
    await without(parts, SWEEP)
    await call.post(init(1))
    cursor = (await call.completions())["cursor"]
    assert await soon(call.completions(after=cursor, wait_ms=50)) == {"completions": [], "cursor": cursor}


@pytest.mark.parametrize("lost", [SWEEP, LISTEN], ids=["by its hint", "by the sweep, its hint being lost"])
async def test_a_completion_on_another_replica_wakes_who_waits(
    call: Caller, replica: Caller, parts: Components, lost: int
) -> None:
    await without(parts, lost)
    await call.post(init(1, 9))
    reading = await waiting(parts, call, wait_ms=LONGEST)
    assert await replica.state(ack(1, 9)) == "acked"
    assert [done["root_id"] for done in (await soon(reading))["completions"]] == ["0000000000000001"]


async def test_a_timeout_wakes_who_waits(call: Caller, parts: Components) -> None:
    await call.post(init(1, 9, message_timeout_ms=100))
    reading = await waiting(parts, call, wait_ms=LONGEST)
    topology = await parts.registry.get("default")
    await eventually(lambda: parts.expiry.expire(topology))
    assert [done["outcome"] for done in (await soon(reading))["completions"]] == ["timed_out"]


async def test_all_who_wait_are_woken(call: Caller, parts: Components) -> None:
    await call.post(init(1, 9))
    readings = [await waiting(parts, call, wait_ms=LONGEST) for _ in range(3)]
    await call.post(ack(1, 9))
    for reading in readings:
        assert len((await soon(reading))["completions"]) == 1


async def test_news_of_another_spout_task_are_not_taken_for_ones_own(call: Caller, parts: Components) -> None:
    await call.states(init(1, 9), init(2, 9, spout_task="others"))
    reading = await waiting(parts, call, wait_ms=LONGEST)
    await call.post(ack(2, 9))
    assert await call.outcomes("others") == [(2, "acked")]
    assert not reading.done()
    await call.post(ack(1, 9))
    assert len((await soon(reading))["completions"]) == 1


async def test_who_waits_is_answered_with_what_there_is_when_the_service_stops(
    call: Caller, parts: Components, stopping: asyncio.Event
) -> None:
    await without(parts, SWEEP)
    await call.post(init(1, 9))
    reading = await waiting(parts, call, wait_ms=LONGEST)
    stopping.set()
    assert (await soon(reading))["completions"] == []
    assert await soon(call.outcomes(wait_ms=LONGEST)) == [], "nobody waits any more"
    answer = await call.http.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "stopping"})


async def test_nothing_is_kept_of_one_who_waited(call: Caller, parts: Components) -> None:
    await call.post(init(1, 9))
    reading = await waiting(parts, call, wait_ms=LONGEST)
    await cancel_and_wait(reading)
    assert not parts.mailbox_notifier._mailboxes
