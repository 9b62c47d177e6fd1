"""Requests are applied exactly once: what a repeat under the same key does, and what it is answered."""

import anyio
import httpx
import pytest
from acker_protocol.routes import IDEMPOTENCY_REPLAYED
from acker_service.components import Components

from tests.support.caller import Caller, Document, ack, compact_ack, fail, init, reset_timeout
from tests.support.redis_side import forget_outcomes

pytestmark = pytest.mark.anyio

R, S = 0xA1, 0xB2
E, F, G = 0xE1, 0xE2, 0xE4


def is_replayed(answer: httpx.Response) -> bool:
    return answer.headers.get(IDEMPOTENCY_REPLAYED) == "true"


async def test_a_repeated_ack_is_applied_once(call: Caller) -> None:
    await call.post(init(R, E, F))
    first, second = [await call.post(ack(R, E), key="k") for _ in range(2)]
    assert (is_replayed(first), is_replayed(second)) == (False, True)
    assert second.json() == first.json() == {"root_id": "00000000000000a1", "state": "pending"}
    assert await call.state(ack(R, F)) == "acked"
    assert await call.outcomes() == [(R, "acked")]


async def test_without_a_key_a_repeated_ack_undoes_the_first(call: Caller) -> None:
    await call.put(dedupe_window_ms=0)
    await call.post(init(R, E, F))
    assert [await call.state(op) for op in (ack(R, E), ack(R, E), ack(R, F))] == ["pending"] * 3


async def test_repeats_at_once_are_applied_once(call: Caller) -> None:
    await call.post(init(R, E, F))
    answers: list[httpx.Response] = []

    async def repeat() -> None:
        answers.append(await call.post(ack(R, E), key="k"))

    async with anyio.create_task_group() as group:
        for _ in range(9):
            group.start_soon(repeat)
    assert sorted(map(is_replayed, answers)) == [False] + [True] * 8
    assert await call.state(ack(R, F)) == "acked"


REPEATS = {
    "an init of a pending root": ([], init(R, E), "pending", "pending"),
    "an init that ended its root": ([], init(R), "acked", "finished"),
    "an init of an early root": ([ack(R, E)], init(R, E, F), "pending", "pending"),
    "an init that met an early fail": ([fail(R)], init(R, E), "failed", "finished"),
    "an ack of a pending root": ([init(R, E, F)], ack(R, E), "pending", "pending"),
    "an ack of an early root": ([], ack(R, E), "early", "early"),
    "the last ack": ([init(R, E)], ack(R, E), "acked", "finished"),
    "a fail": ([init(R, E)], fail(R), "failed", "finished"),
    "an early fail": ([], fail(R), "early", "early"),
    "a reset of a pending root": ([init(R, E)], reset_timeout(R), "pending", "pending"),
}


@pytest.mark.parametrize(("before", "op", "first", "again"), REPEATS.values(), ids=REPEATS.keys())
async def test_a_repeat_is_answered_with_the_present_state(
    call: Caller, before: list[Document], op: Document, first: str, again: str
) -> None:
    await call.states(*before)
    assert await call.state(op, key="k") == first
    repeated = await call.post(op, key="k")
    assert (repeated.json()["state"], is_replayed(repeated)) == (again, True)


async def test_a_repeat_tells_the_state_of_now_not_of_then(call: Caller) -> None:
    await call.post(init(R, E, F))
    await call.post(ack(R, E), key="k")
    await call.post(fail(R))
    answer = await call.post(ack(R, E), key="k")
    assert answer.json() == {"root_id": "00000000000000a1", "state": "finished", "outcome": "failed"}


async def test_a_repeated_fail_that_came_early_is_a_duplicate_once_the_root_is_pending(
    call: Caller, parts: Components
) -> None:
    """Such a root exists when the fail's request is repeated after its root ended, was forgotten and emitted anew."""
    await call.put(retention_ms=1_000)
    await call.states(init(R, E))
    await call.post(fail(R), key="k")
    await forget_outcomes(parts)
    await call.post(init(R, E))
    assert await call.state(fail(R), key="k") == "duplicate"
    assert await call.state(ack(R, E)) == "acked"


async def test_a_repeat_on_a_root_no_longer_known_is_a_duplicate(call: Caller, parts: Components) -> None:
    ops = (init(R), init(S, E), ack(S, E), fail(S), reset_timeout(S))
    await call.states(*ops, key="k")
    await forget_outcomes(parts)
    again = await call.batch(*ops, key="k")
    assert (again.json()["results"], is_replayed(again)) == (["duplicate"] * 5, True)
    assert {(await call.root(root))["code"] for root in (R, S)} == {"unknown_root"}


async def test_a_repeated_init_whose_root_another_emit_holds_is_a_conflict(call: Caller, parts: Components) -> None:
    await call.post(init(R), key="k")
    await forget_outcomes(parts)
    await call.post(init(R, E, message_id="another"))
    answer = await call.post(init(R), key="k")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert (await call.root(R))["message_id"] == "another"


async def test_what_had_no_effect_is_remembered_too(call: Caller) -> None:
    await call.post(reset_timeout(R), key="k")
    await call.post(init(R, E))
    answer = await call.post(reset_timeout(R), key="k")
    assert (answer.json()["state"], is_replayed(answer)) == ("pending", True)


OTHERS = {
    "another edge": ack(R, F),
    "another child": ack(R, E, G),
    "another component": ack(R, E, component="split"),
    "the compact form without its count": compact_ack(R, E),
    "another root": ack(S, E),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
async def test_the_same_key_with_other_content_is_another_request(call: Caller, other: Document) -> None:
    await call.states(init(R, E, F), init(S, E, F))
    await call.post(ack(R, E), key="k")
    assert not is_replayed(await call.post(other, key="k"))


async def test_the_same_key_with_other_content_is_applied_too(call: Caller) -> None:
    await call.post(init(R, E, F))
    assert [await call.state(op, key="k") for op in (ack(R, E), ack(R, F))] == ["pending", "acked"]


async def test_another_endpoint_or_topology_is_another_request(call: Caller) -> None:
    other = Caller(call.http, "other")
    await other.put()
    assert not is_replayed(await call.batch(init(R, E), key="k"))
    assert not is_replayed(await call.post(init(R, E), key="k"))
    assert not is_replayed(await other.batch(init(R, E), key="k"))
    assert is_replayed(await call.batch(init(R, E), key="k"))


async def test_the_same_operations_written_otherwise_are_the_same_request(call: Caller) -> None:
    await call.batch(init(R, E), key="k")
    spaced = b'{ "ops" : [ {"edges": ["00000000000000e1"], "message_id": null, "spout_task": "orders", "op": "init",'
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json; charset=utf-8"}
    address = "/v1/topologies/default/batch"
    answer = await call.http.post(address, content=spaced + b' "root_id": "00000000000000a1"}]}', headers=headers)
    assert (answer.json()["results"], is_replayed(answer)) == (["pending"], True)


async def test_what_only_explains_a_root_tells_no_two_requests_apart(call: Caller) -> None:
    await call.post(init(R, E, trace=True), key="k")
    assert is_replayed(await call.post(init(R, E), key="k"))


async def test_a_batch_in_another_order_is_another_request(call: Caller) -> None:
    ops = [init(4, E), init(8, E)]
    await call.batch(*ops, key="k")
    assert not is_replayed(await call.batch(*reversed(ops), key="k"))


async def test_a_batch_over_several_shards_is_repeated_in_all_of_them(call: Caller) -> None:
    ops = [op for root in range(1, 41) for op in (init(root, E, F), ack(root, E))]
    first, second = [await call.batch(*ops, key="k") for _ in range(2)]
    assert (is_replayed(first), is_replayed(second)) == (False, True)
    assert second.json() == {"accepted": 80, "results": ["pending"] * 80}
    assert await call.states(*[ack(root, F) for root in range(1, 41)]) == ["acked"] * 40


async def test_a_batch_that_one_shard_never_saw_is_applied_there_and_not_called_a_repeat(call: Caller) -> None:
    """As after a request that reached some shards only: its part for shard 0 alone is known."""
    await call.states(init(4, E, F), init(5, E, F))
    await call.batch(ack(4, E), key="k")
    answer = await call.batch(ack(4, E), ack(5, E), key="k")
    assert (answer.json()["results"], is_replayed(answer)) == (["pending", "pending"], False)
    assert await call.states(ack(4, F), ack(5, F)) == ["acked", "acked"], "neither was applied twice"


async def test_refused_inits_are_told_again_and_taken_in_a_new_request(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    ops = (init(4, E), init(8, E), init(12))
    first = await call.batch(*ops, key="k")
    assert first.json() == {"accepted": 2, "results": ["pending", "max_spout_pending", "acked"]}
    await call.put(max_spout_pending=None)
    again = await call.batch(*ops, key="k")
    assert again.json() == {"accepted": 2, "results": ["pending", "max_spout_pending", "finished"]}
    assert is_replayed(again)
    assert (await call.root(8))["code"] == "unknown_root"
    assert await call.state(init(8, E), key="new") == "pending"
    assert (await call.batch(*ops, key="k")).json()["results"] == ["pending", "pending", "finished"]


async def test_a_request_whose_inits_were_all_refused_is_begun_anew(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    await call.post(init(4, E))
    refused = await call.post(init(8, E), key="k")
    assert (refused.status_code, is_replayed(refused)) == (429, False)
    await call.post(ack(4, E))
    answer = await call.post(init(8, E), key="k")
    assert (answer.json()["state"], is_replayed(answer)) == ("pending", False)


async def test_a_repeat_needs_no_place(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    await call.post(init(4, E), key="k")
    answer = await call.post(init(4, E), key="k")
    assert (answer.json()["state"], is_replayed(answer)) == ("pending", True)


async def test_a_repeat_of_a_conflict_is_a_conflict(call: Caller) -> None:
    await call.post(init(R, E))
    ops = (init(R, E, spout_task="others"), init(S, E))
    for _ in range(2):
        assert await call.states(*ops, key="k") == ["conflict", "pending"]


async def test_a_single_init_that_is_repeated_when_another_has_its_root_is_a_conflict_that_was_replayed(
    call: Caller, parts: Components
) -> None:
    await call.post(init(R), key="k")
    await forget_outcomes(parts)
    await call.post(init(R, E, spout_task="others"))
    answer = await call.post(init(R), key="k")
    assert (answer.status_code, answer.json()["code"], is_replayed(answer)) == (409, "conflict", True)
