"""Spout tasks: how they come to be, and what is shown of them."""

import httpx
import pytest
from acker_service.components import Components

from tests.support.caller import Caller, ack, init
from tests.support.redis_side import everywhere, flush

pytestmark = pytest.mark.anyio

SPOUTS = "/v1/topologies/default/spouts"
PLAIN = {
    "spout_task": "orders",
    "callback": None,
    "ephemeral": False,
    "pending": 0,
    "unread": 0,
    "dead_letters": 0,
    "oldest_unread_at_ms": None,
    "last_read_at_ms": None,
    "last_emit_at_ms": None,
}


async def test_a_spout_task_is_made_with_201_and_left_as_it_is_with_200(api: httpx.AsyncClient) -> None:
    answers = [await api.put(f"{SPOUTS}/orders", json={"callback": None, "ephemeral": False}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert [answer.json() for answer in answers] == [PLAIN, PLAIN]


@pytest.mark.parametrize("document", [{}, {"callback": None}, {"ephemeral": False}, {"ephemeral": None}])
async def test_the_fields_of_a_spout_task_may_be_left_out(api: httpx.AsyncClient, document: dict[str, object]) -> None:
    assert (await api.put(f"{SPOUTS}/orders", json=document)).json() == PLAIN


async def test_a_spout_task_may_be_made_without_a_body(api: httpx.AsyncClient) -> None:
    assert [(await api.put(f"{SPOUTS}/orders")).status_code for _ in range(2)] == [201, 200]


async def test_an_init_registers_its_spout_task(call: Caller) -> None:
    assert (await call.spout())["code"] == "unknown_spout"
    await call.post(init(1, 9))
    shown = await call.spout()
    assert shown["last_emit_at_ms"] > 1_700_000_000_000
    assert shown == PLAIN | {"pending": 1, "last_emit_at_ms": shown["last_emit_at_ms"]}
    assert (await call.http.put(f"{SPOUTS}/orders")).status_code == 200


async def test_a_spout_task_is_shown_with_what_is_pending_and_unread(call: Caller) -> None:
    await call.states(*[init(root, 9) for root in range(1, 11)], *[ack(root, 9) for root in range(1, 8)])
    shown = await call.spout()
    assert min(shown["last_emit_at_ms"], shown["oldest_unread_at_ms"]) > 1_700_000_000_000
    times = {name: shown[name] for name in ("oldest_unread_at_ms", "last_emit_at_ms")}
    assert shown == PLAIN | {"pending": 3, "unread": 7} | times
    read = await call.completions(limit=5)
    shown = await call.spout()
    assert shown["last_read_at_ms"] >= times["oldest_unread_at_ms"]
    times["last_read_at_ms"] = shown["last_read_at_ms"]
    assert shown == PLAIN | {"pending": 3, "unread": 7} | times, "reading is not releasing"
    await call.release(read["cursor"])
    shown = await call.spout()
    assert shown | times == PLAIN | {"pending": 3, "unread": 2} | times
    assert shown["oldest_unread_at_ms"] >= times["oldest_unread_at_ms"]


async def test_all_spout_tasks_are_listed_by_name(call: Caller) -> None:
    for name in ("b", "a", "n" * 128):
        await call.http.put(f"{SPOUTS}/{name}")
    await call.post(init(1, spout_task="b"))
    listed = (await call.http.get(SPOUTS)).json()["spouts"]
    assert [shown["spout_task"] for shown in listed] == ["a", "b", "n" * 128]
    assert listed[1] == await call.spout("b")


async def test_spout_tasks_know_nothing_of_each_other(call: Caller) -> None:
    await call.states(init(4, spout_task="a"), init(8, spout_task="b"), init(12, spout_task="a"))
    assert sorted(await call.outcomes("a")) == [(4, "acked"), (12, "acked")]
    assert await call.outcomes("b") == [(8, "acked")]
    await call.release((await call.completions("a"))["cursor"], "a")
    assert (await call.outcomes("a"), await call.outcomes("b")) == ([], [(8, "acked")])


async def test_a_new_spout_task_has_nothing_to_read(call: Caller) -> None:
    await call.http.put(f"{SPOUTS}/orders")
    read = await call.completions()
    assert read["completions"] == []
    await call.post(init(1))
    assert await call.outcomes(after=read["cursor"]) == [(1, "acked")]


async def test_a_spout_task_can_be_made_at_once_in_a_store_that_was_emptied(call: Caller, parts: Components) -> None:
    await call.http.put(f"{SPOUTS}/orders")
    await flush(parts)
    assert (await call.http.put(f"{SPOUTS}/orders")).status_code == 201
    assert await call.spout() == PLAIN


async def test_an_init_of_a_new_spout_task_is_taken_at_once_in_a_store_that_was_emptied(
    call: Caller, parts: Components
) -> None:
    await call.post(init(1, 9))
    await flush(parts)
    assert await call.state(init(1, 9, spout_task="new")) == "pending"
    assert await call.state(init(2, 9)) == "pending"


@pytest.mark.parametrize("max_spout_pending", [None, 5])
async def test_operations_are_taken_at_once_in_a_store_that_was_emptied(
    call: Caller, parts: Components, max_spout_pending: int | None
) -> None:
    await call.put(max_spout_pending=max_spout_pending)
    await call.states(*[init(root, 9) for root in range(1, 5)])
    await flush(parts)
    await everywhere(parts, "FUNCTION FLUSH")
    ops = [op for root in range(1, 9) for op in (init(root, 9), ack(root, 9))]
    assert await call.states(*ops) == ["pending", "acked"] * 8
    assert len(await call.outcomes()) == 8
