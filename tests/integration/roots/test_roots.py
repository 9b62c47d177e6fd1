"""Waiting for a root to finish, and failing one by hand."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import anyio
import pytest
from acker_protocol.ids import format_id
from acker_service.background import cancel_and_wait
from acker_service.components import Components

from tests.support.caller import Caller, Document, ack, fail, init
from tests.support.dump import dump
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")
LONGEST = 60_000
R, E = 0xA1, 0xE1
ENDED = {"root_id": format_id(R), "state": "finished", "outcome": "acked"}
ACKED = ENDED | {"reason": None, "component": None, "at_ms": None}


async def soon(awaited: Awaitable[T]) -> T:
    """Return what is awaited; it has to come long before the longest wait ends."""
    with anyio.fail_after(40):
        return await awaited


async def waiting(parts: Components, call: Caller, root: int = R) -> "asyncio.Task[Document]":
    """Begin to wait for a root, and return the answer to come once it is waited for."""
    before = waiters(parts)
    answer = asyncio.create_task(call.root(root, wait_ms=LONGEST))

    async def waits() -> bool:
        assert not answer.done(), answer.result()
        return waiters(parts) > before

    await eventually(waits)
    return answer


def waiters(parts: Components) -> int:
    return sum(map(len, parts.root_notifier._roots._waiters.values()))


@pytest.mark.parametrize(("end", "outcome"), [(ack(R, E), "acked"), (fail(R), "failed")], ids=["acked", "failed"])
async def test_who_waits_for_a_root_is_answered_when_it_is_over(
    call: Caller, parts: Components, end: Document, outcome: str
) -> None:
    await call.post(init(R, E))
    answer = await waiting(parts, call)
    await call.post(end)
    ended = await soon(answer)
    assert (ended["at_ms"] is None) == (outcome == "acked")
    assert ended | {"at_ms": None} == ACKED | {"outcome": outcome}


async def test_who_waits_is_answered_at_a_timeout(call: Caller, parts: Components) -> None:
    await call.post(init(R, E, message_timeout_ms=100))
    answer = await waiting(parts, call)
    topology = await parts.registry.get("default")
    await eventually(lambda: parts.expiry.expire(topology))
    assert (await soon(answer))["outcome"] == "timed_out"


async def test_an_early_root_is_waited_for_too(call: Caller, parts: Components) -> None:
    await call.post(ack(R, E))
    answer = await waiting(parts, call)
    await call.post(init(R, E))
    assert await soon(answer) == ACKED


async def test_a_root_that_is_over_is_given_without_waiting(call: Caller) -> None:
    await call.post(init(R))
    assert await soon(call.root(R, wait_ms=LONGEST)) == ACKED


async def test_a_root_that_nobody_knows_is_not_waited_for(call: Caller) -> None:
    assert (await soon(call.root(R, wait_ms=LONGEST)))["code"] == "unknown_root"


async def test_a_wait_ends_with_the_root_as_it_stands_when_its_time_is_over(call: Caller) -> None:
    await call.post(init(R, E))
    assert (await soon(call.root(R, wait_ms=50)))["state"] == "pending"


async def test_all_who_wait_are_answered_and_others_wait_on(call: Caller, parts: Components) -> None:
    await call.states(init(R, E), init(R + 1, E))
    answers = [await waiting(parts, call) for _ in range(3)]
    other = await waiting(parts, call, R + 1)
    await call.post(ack(R, E))
    assert await soon(asyncio.gather(*answers)) == [ACKED] * 3
    assert not other.done()
    await call.post(ack(R + 1, E))
    assert (await soon(other))["outcome"] == "acked"


async def test_who_waits_is_answered_with_the_present_state_when_the_service_stops(
    call: Caller, parts: Components, stopping: asyncio.Event
) -> None:
    await call.post(init(R, E))
    answer = await waiting(parts, call)
    stopping.set()
    assert (await soon(answer))["state"] == "pending"
    assert (await soon(call.root(R, wait_ms=LONGEST)))["state"] == "pending", "nobody waits any more"


async def test_a_wait_ends_when_the_topology_goes(call: Caller, parts: Components) -> None:
    call = Caller(call.http, "other")
    await call.put()
    await call.post(init(R, E))
    answer = await waiting(parts, call)
    await call.http.delete("/v1/topologies/other", params={"force": True, "discard": True})
    assert (await soon(answer))["code"] == "unknown_topology"


async def test_all_roots_that_are_waited_for_are_looked_at_together(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call.states(*(init(root, E) for root in range(1, 41)))
    answers = [await waiting(parts, call, root) for root in range(1, 41)]
    looks: list[int] = []
    execute_each = parts.redis.execute_each

    async def counted(calls):
        looks.append(sum(len(call.command[-1]) for call in calls))
        return await execute_each(calls)

    monkeypatch.setattr(parts.redis, "execute_each", counted)
    await parts.mailbox_notifier.stop()

    async def looked() -> bool:
        return len(looks) >= 3

    await eventually(looked)
    assert set(looks) == {40 * 12}, "twelve bytes a root"
    await call.states(*(ack(root, E) for root in range(1, 41)))
    assert {answer["state"] for answer in await soon(asyncio.gather(*answers))} == {"finished"}


async def test_a_look_finds_the_roots_that_are_over_and_no_others(call: Caller, parts: Components) -> None:
    await call.states(init(1, E), ack(2, E), init(3), init(4, E), fail(4))
    topology = await parts.registry.get("default")
    assert sorted(await parts.root_notifier._find_finished(topology, [1, 2, 3, 4, 5])) == [3, 4, 5]


async def test_nobody_looks_when_nobody_waits(call: Caller, parts: Components) -> None:
    await call.post(init(R, E))
    await call.root(R)
    assert parts.root_notifier._task is None
    answer = await waiting(parts, call)
    await cancel_and_wait(answer)

    async def rests() -> bool:
        assert parts.root_notifier._task is not None
        return parts.root_notifier._task.done()

    await eventually(rests)
    assert waiters(parts) == 0


async def test_the_watch_outlives_a_store_that_is_away(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call.post(init(R, E))
    answer = await waiting(parts, call)
    failed = asyncio.Event()

    async def away(*_: object) -> None:
        failed.set()
        raise RuntimeError("of some kind")

    with monkeypatch.context() as patch:
        patch.setattr(parts.shards, "call_each", away)
        await soon(failed.wait())
    await call.post(ack(R, E))
    assert await soon(answer) == ACKED


async def test_a_fail_by_hand_is_told_as_forced(call: Caller) -> None:
    await call.post(init(R, E, message_id="42"))
    assert await call.force_fail(R, reason="stuck") == {"root_id": format_id(R), "state": "failed"}
    (done,) = (await call.completions())["completions"]
    outcomes = (done["outcome"], done["reason"], done["component"], done["message_id"])
    assert outcomes == ("failed", "forced: stuck", None, "42")
    details = {"outcome": "failed", "reason": "forced: stuck", "at_ms": done["at_ms"]}
    assert await call.root(R) == ACKED | details
    assert (await call.spout())["pending"] == 0


@pytest.mark.parametrize("body", [{}, {"json": {}}, {"json": {"reason": None}}], ids=["no body", "empty", "null"])
async def test_a_fail_by_hand_needs_no_reason(call: Caller, body: dict[str, Document]) -> None:
    await call.post(init(R, E))
    answer = await call.http.post(f"/v1/topologies/default/roots/{format_id(R)}/fail", **body)
    assert (answer.status_code, answer.json()["state"]) == (200, "failed")
    assert [done["reason"] for done in (await call.completions())["completions"]] == ["forced"]


async def test_an_early_root_that_was_failed_by_hand_fails_at_its_init(call: Caller) -> None:
    await call.post(ack(R, E))
    assert (await call.force_fail(R, reason="stuck"))["state"] == "early"
    assert await call.state(init(R, E)) == "failed"
    assert [done["reason"] for done in (await call.completions())["completions"]] == ["forced: stuck"]


async def test_a_root_that_is_over_stays_as_it_ended(call: Caller) -> None:
    await call.post(init(R))
    assert await call.force_fail(R) == ENDED
    assert await call.outcomes() == [(R, "acked")]


async def test_a_root_that_nobody_knows_stays_unknown(call: Caller, parts: Components) -> None:
    before = await dump(parts)
    assert (await call.force_fail(R))["code"] == "unknown_root"
    assert await dump(parts) == before


@pytest.mark.parametrize("document", [{"reason": "r" * 1_025}, {"reason": 1}, {"component": "c"}])
async def test_what_a_fail_by_hand_may_say_is_bounded(call: Caller, document: Document) -> None:
    await call.post(init(R, E))
    assert (await call.force_fail(R, **document))["code"] == "invalid"
    assert (await call.root(R))["state"] == "pending"


async def test_zero_is_no_root(call: Caller) -> None:
    assert (await call.force_fail(0))["code"] == "invalid"
