"""Calls of one turn of the event loop share one call to the store; they do what they would do one by one."""

import asyncio
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.redis import keys
from acker_service.redis.calls import Call

from tests.support.caller import Caller, Document, ack, fail, init, reset_timeout
from tests.support.redis_side import find

pytestmark = pytest.mark.anyio

R, S = 4, 8
"""Two roots of one shard."""
E, F, G = 0xE1, 0xE2, 0xE3


@pytest.fixture
def calls(parts: Components, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each call of the store held that applied any."""
    held: list[int] = []
    execute = parts.redis.execute

    async def counted(call: Call[Any]) -> Any:
        if call.name.startswith("acker_apply"):
            _, _, _, _, _, _, _, _, *requests = call.command
            held.append(len(requests) // 5)
        return await execute(call)

    monkeypatch.setattr(parts.redis, "execute", counted)
    return held


async def together(call: Caller, *ops: Document, keys: bool = False) -> list[str]:
    """Send each in a call of its own, all at once."""
    return await asyncio.gather(*(call.word(op, key=f"{i}" if keys else None) for i, op in enumerate(ops)))


async def test_acks_of_one_turn_do_what_they_do_one_by_one(call: Caller, calls: list[int]) -> None:
    await call.words(init(R, E, F), init(S, E))
    calls.clear()
    assert await together(call, ack(R, E), ack(R, F), fail(S), ack(S, E)) == ["pending", "acked", "failed", "finished"]
    assert calls == [4]
    assert (await call.show())["pending"] == 0


async def test_inits_of_one_turn_do_what_they_do_one_by_one(call: Caller, calls: list[int]) -> None:
    other = init(R, E, message_id="another emit")
    await call.post(init(40))
    calls.clear()
    assert await together(call, init(R, E), init(R, E), other) == ["pending", "duplicate", "conflict"]
    assert calls == [3]
    assert (await call.spout())["pending"] == 1
    await call.post(ack(R, E))
    assert (await call.spout())["pending"] == 0


async def test_calls_without_a_key_leave_nothing_to_remember(call: Caller, parts: Components) -> None:
    await together(call, init(R, E), ack(R, E))
    kept = await find(parts, keys.shard("default", 0) + ":*")
    assert not [key for key in kept if key.rpartition(":")[0].endswith((":s0", ":s1"))]


async def test_what_had_no_effect_is_remembered_beside_what_had(call: Caller, calls: list[int]) -> None:
    await call.post(init(40))
    calls.clear()
    assert await together(call, ack(R, E), reset_timeout(S), keys=True) == ["early", "unknown"]
    assert calls == [2]
    await call.post(init(S, G))
    again = [(ack(R, E), "0"), (reset_timeout(S), "1")]
    answers = [await call.post(op, key=key) for op, key in again]
    replayed = [answer.headers.get("Idempotency-Replayed") for answer in answers]
    assert replayed == ["true", "true"]
