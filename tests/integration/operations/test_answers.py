"""What an operation is answered, and what its completion tells: the documents, the status codes, the counts."""

import pytest
from acker_protocol.errors import MEDIA_TYPE
from acker_service.components import Components

from tests.support.caller import Caller, Document, ack, compact_ack, compact_init, fail, init, reset_timeout
from tests.support.redis_side import let_redis_count

pytestmark = pytest.mark.anyio

R, S = 0xA1, 0xB2
E, F, G = 0xE1, 0xE2, 0xE4
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_an_answer_names_root_and_state_and_the_outcome_of_a_finished_root(call: Caller) -> None:
    root = "00000000000000a1"
    answers = [await call.post(op) for op in (init(R, E), ack(R, E), ack(R, E), fail(R))]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json() for answer in answers] == [
        {"root_id": root, "state": "pending"},
        {"root_id": root, "state": "acked"},
        {"root_id": root, "state": "finished", "outcome": "acked"},
        {"root_id": root, "state": "finished", "outcome": "acked"},
    ]


async def test_a_conflict_is_409_in_a_single_call(call: Caller) -> None:
    await call.post(init(R, E))
    answer = await call.post(init(R, E, spout_task="others"))
    assert (answer.status_code, answer.headers["content-type"]) == (409, MEDIA_TYPE)
    problem = answer.json()
    assert (problem["code"], problem["retryable"], problem["root_id"]) == ("conflict", False, "00000000000000a1")


async def test_a_conflict_in_a_batch_is_a_word_and_not_accepted(call: Caller) -> None:
    ops = (init(R, E), init(R, E, spout_task="others"), ack(R, E))
    answer = await call.batch(*ops)
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "results": ["pending", "conflict", "acked"]})


async def test_a_batch_can_be_answered_with_exceptions_only(call: Caller) -> None:
    answer = await call.batch(init(R, E), init(R, E, message_id="7"), ack(R, E), results="exceptions")
    assert answer.json() == {"accepted": 2, "exceptions": [{"index": 1, "state": "conflict"}]}


async def test_an_empty_batch_is_accepted(call: Caller) -> None:
    assert (await call.batch()).json() == {"accepted": 0, "results": []}


async def test_a_batch_over_all_shards_is_answered_in_its_order(call: Caller) -> None:
    roots = range(1, 101)
    states = await call.states(*[init(root, E) for root in roots], *[ack(root, E) for root in reversed(roots)])
    assert states == ["pending"] * 100 + ["acked"] * 100
    assert sorted(await call.outcomes()) == [(root, "acked") for root in roots]


async def test_a_completion_tells_message_id_reason_component_and_latency(call: Caller) -> None:
    await call.states(init(R, E, message_id="Nº 42"), fail(R, reason="card service\ntimed out", component="authorize"))
    (done,) = (await call.completions())["completions"]
    assert done.pop("at_ms") - done.pop("complete_latency_ms") > 1_700_000_000_000
    assert len(bytes.fromhex(done.pop("id"))) == 16
    assert done == {
        "root_id": "00000000000000a1",
        "outcome": "failed",
        "message_id": "Nº 42",
        "reason": "card service\ntimed out",
        "component": "authorize",
    }


@pytest.mark.parametrize("message_id", ["", "x" * 64, "ü" * 512, "\0", "😀" * 256])
async def test_a_message_id_comes_back_as_given(call: Caller, message_id: str) -> None:
    await call.states(init(R, E, message_id=message_id), init(S, message_id=message_id))
    assert (await call.root(R))["message_id"] == message_id
    await call.post(ack(R, E))
    assert [done["message_id"] for done in (await call.completions())["completions"]] == [message_id] * 2


@pytest.mark.parametrize(
    ("ending", "options"),
    [
        ((ack(R, E),), {}),
        ((fail(R),), {"message_id": "m" * 1_024}),
        ((fail(R, reason="no", component="bolt"),), {"message_id": "42", "progress_timeout_ms": 500_000}),
        ((reset_timeout(R), ack(R, E)), {"message_timeout_ms": 600_000, "progress_timeout_ms": 500_000}),
    ],
)
async def test_a_completion_gives_back_the_traceparent_however_the_root_ends(
    call: Caller, ending: tuple[Document, ...], options: Document
) -> None:
    await call.post(init(R, E, traceparent=TRACEPARENT, **options))
    for operation in ending:
        await call.post(operation)
    (done,) = (await call.completions())["completions"]
    assert (done["traceparent"], done["message_id"]) == (TRACEPARENT, options.get("message_id"))


async def test_the_traceparent_of_an_init_after_its_acks_or_fails_comes_back(call: Caller) -> None:
    await call.states(ack(R, E), init(R, E, traceparent=TRACEPARENT), fail(S, reason="no"))
    await call.post(init(S, E, traceparent=TRACEPARENT))
    outcomes = (await call.completions())["completions"]
    assert sorted((done["reason"] or "", done["traceparent"]) for done in outcomes) == [
        ("", TRACEPARENT),
        ("no", TRACEPARENT),
    ]


async def test_without_ackers_the_traceparent_comes_back(call: Caller) -> None:
    loose = Caller(call.http, "loose")
    await loose.put(ackers=0)
    await loose.post(init(R, E, traceparent=TRACEPARENT))
    (done,) = (await loose.completions())["completions"]
    assert done["traceparent"] == TRACEPARENT


async def test_a_traceparent_is_not_that_of_the_next_root(call: Caller) -> None:
    await call.states(init(4, E, traceparent=TRACEPARENT, message_id="42"), init(8, E, message_timeout_ms=600_000))
    await call.states(ack(4, E), ack(8, E))
    outcomes = {done["root_id"]: done.get("traceparent") for done in (await call.completions())["completions"]}
    assert outcomes == {f"{4:016x}": TRACEPARENT, f"{8:016x}": None}


async def test_what_one_operation_says_is_not_said_of_the_next(call: Caller) -> None:
    said = {"message_id": "42", "message_timeout_ms": 600_000, "progress_timeout_ms": 500_000}
    await call.states(init(4, E, **said), init(8, E), fail(4, reason="late", component="bolt"), fail(8))
    outcomes = (await call.completions())["completions"]
    assert [(done["message_id"], done["reason"], done["component"]) for done in outcomes] == [
        ("42", "late", "bolt"),
        (None, None, None),
    ]


async def test_an_early_failure_keeps_its_own_reason_until_the_init(call: Caller) -> None:
    await call.post(fail(R, reason="r" * 1_024, component="first"))
    await call.post(fail(R, reason="later", component="second"))
    await call.post(init(R, E, message_id="m" * 1_024))
    (done,) = (await call.completions())["completions"]
    assert (done["reason"], done["component"], done["message_id"]) == ("r" * 1_024, "first", "m" * 1_024)


async def test_a_root_shows_how_it_stands(call: Caller) -> None:
    await call.post(compact_ack(R, F))
    early = await call.root(R)
    assert (early["state"], early["spout_task"], early["ack_val"]) == ("early", None, "00000000000000e2")
    await call.post(compact_init(R, E, outstanding=1, message_id="42", message_timeout_ms=5_000))
    shown = await call.root(R)
    age = shown.pop("age_ms")
    assert 0 <= age < 60_000
    assert shown.pop("deadline_at_ms") > 1_700_000_000_000
    assert shown.pop("last_ack_at_ms") > 1_700_000_000_000
    assert shown == {
        "root_id": "00000000000000a1",
        "state": "pending",
        "spout_task": "orders",
        "message_id": "42",
        "ack_val": "0000000000000003",
        "outstanding": None,
        "last_component": None,
        "acks": 1,
    }
    await call.post(fail(R))
    ended = await call.root(R)
    assert ended.pop("at_ms") > 1_700_000_000_000
    assert ended == {
        "root_id": "00000000000000a1",
        "state": "finished",
        "outcome": "failed",
        "reason": None,
        "component": None,
    }


@pytest.mark.parametrize("op", [reset_timeout(R), compact_ack(R, 0)], ids=["reset timeout", "ack of zero"])
async def test_what_has_no_effect_leaves_no_state_behind(call: Caller, op: dict[str, str]) -> None:
    await call.post(op)
    assert (await call.root(R))["code"] == "unknown_root"


async def test_a_zero_with_edges_outstanding_is_counted(call: Caller) -> None:
    await call.states(compact_init(R, E, outstanding=2), compact_ack(R, E, outstanding=-1))
    topology = await call.show()
    assert (topology["pending"], topology["counts"]["unbalanced"]) == (1, 1)


async def test_one_who_leaves_the_count_out_makes_it_unknown_for_good(call: Caller) -> None:
    ops = (init(R, E, F), compact_ack(R, E ^ G), ack(R, F), compact_ack(R, G, outstanding=-5))
    assert await call.states(*ops) == ["pending", "pending", "pending", "acked"]


async def test_counts_tell_how_roots_ended(call: Caller) -> None:
    await call.states(init(1), init(2, E), fail(2), init(3, E), init(4, E))
    topology = await call.show()
    assert (topology["pending"], topology["unread"]) == (2, 2)
    assert topology["counts"] == {"acked": 1, "failed": 1, "timed_out": 0, "dropped": 0, "unbalanced": 0}


async def test_an_init_beyond_max_spout_pending_is_429_until_a_root_ends(call: Caller) -> None:
    await call.put(max_spout_pending=2)
    assert [await call.state(init(root, E)) for root in (1, 2)] == ["pending"] * 2
    refused = await call.post(init(3, E))
    assert (refused.status_code, refused.headers["content-type"]) == (429, MEDIA_TYPE)
    problem = refused.json()
    assert (problem["code"], problem["retryable"]) == ("max_spout_pending", True)
    assert problem["retry_after_ms"] <= int(refused.headers["Retry-After"]) * 1_000
    assert (await call.root(3))["code"] == "unknown_root"
    assert await call.state(ack(1, E)) == "acked"
    assert await call.state(init(3, E)) == "pending"


async def test_max_spout_pending_is_a_spout_tasks_own(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    ops = [init(root, E, spout_task=name) for root, name in ((1, "a"), (2, "a"), (3, "b"), (4, "b"))]
    assert await call.states(*ops) == ["pending", "max_spout_pending"] * 2


async def test_room_under_a_cap_goes_to_inits_in_the_order_given(call: Caller) -> None:
    await call.put(max_spout_pending=3)
    ops = [init(root * 4, E) for root in (5, 1, 4, 2, 3)]
    assert await call.states(*ops) == ["pending"] * 3 + ["max_spout_pending"] * 2
    assert (await call.spout())["pending"] == 3


@pytest.mark.parametrize("counts_in_redis", [True, False], ids=["counted in Redis", "read before"])
async def test_room_under_a_cap_is_one_for_all_shards(
    call: Caller, parts: Components, *, counts_in_redis: bool
) -> None:
    let_redis_count(parts, counts=counts_in_redis)
    await call.put(max_spout_pending=3)
    states = await call.states(*(init(root, E) for root in range(1, 6)))
    assert sorted(states) == ["max_spout_pending"] * 2 + ["pending"] * 3
    assert await call.states(*(init(root, E) for root in range(6, 10))) == ["max_spout_pending"] * 4
    assert (await call.spout())["pending"] == 3


async def test_what_needs_no_place_is_taken_at_the_cap(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    await call.states(init(1, E), ack(2, F), fail(3))
    assert await call.states(init(1, E), init(2, F), init(3, E), init(4)) == ["duplicate", "acked", "failed", "acked"]


async def test_a_place_freed_in_a_batch_is_given_again_in_it(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    ops = (init(4, E), ack(4, E), init(8, E), ack(8, E), init(12, E), init(16, E))
    assert await call.states(*ops) == ["pending", "acked", "pending", "acked", "pending", "max_spout_pending"]


async def test_without_ackers_the_completion_is_delivered_like_any_other(call: Caller) -> None:
    loose = Caller(call.http, "loose")
    await loose.put(ackers=0)
    await loose.post(init(R, E, message_id="42"))
    (done,) = (await loose.completions())["completions"]
    assert (done["outcome"], done["message_id"]) == ("acked", "42")
    assert (await loose.show())["pending"] == 0
