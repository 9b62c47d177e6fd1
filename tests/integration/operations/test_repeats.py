"""A request that is repeated under its key changes nothing, and says of each operation whether it was applied."""

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.routes import IDEMPOTENCY_REPLAYED
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.components import Components

from tests.support.caller import Caller, Document, ack, fail, init, reset_timeout
from tests.support.redis_side import at, find, forget_outcomes

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
REFUSED = "max_spout_pending"


@pytest.fixture
async def capped(call: Caller) -> Caller:
    """A topology of one shard that lets a spout task have one pending root."""
    one = Caller(call.http, "capped")
    await one.put(ackers=1, max_spout_pending=1)
    return one


async def packed_words(call: Caller, *ops: Document, key: str) -> list[str]:
    body = encode_packed(decode_batch({"ops": list(ops)}, max_operations=10_000))
    headers = {"Content-Type": CONTENT_TYPE, routes.IDEMPOTENCY_KEY: key}
    answer = await call.http.post(routes.operation(call.topology, "batch"), content=body, headers=headers)
    return list(answer.json()["results"])


async def test_after_the_retention_only_the_init_that_was_refused_is_said_to_be_refused(
    capped: Caller, parts: Components
) -> None:
    ops = (init(4, E), init(8, E))
    assert await capped.states(*ops, key="k") == ["pending", REFUSED]
    await capped.post(ack(4, E))
    await forget_outcomes(parts)
    assert await capped.states(*ops, key="k") == ["duplicate", REFUSED]
    assert await capped.outcomes() == [(4, "acked")]


async def test_an_obedient_client_sends_again_what_was_refused_and_nothing_is_told_twice(
    capped: Caller, parts: Components
) -> None:
    ops = (init(4, E), init(8, E), init(12, E))
    await capped.states(*ops, key="k")
    await capped.post(ack(4, E))
    await forget_outcomes(parts)
    await capped.put(max_spout_pending=None)
    repeated = await capped.states(*ops, key="k")
    sent_again = [op for op, state in zip(ops, repeated, strict=True) if state == REFUSED]
    assert await capped.states(*sent_again, key="new") == ["pending"] * 2
    await capped.states(*(ack(root, E) for root in (8, 12)))
    assert sorted(await capped.outcomes()) == [(4, "acked"), (8, "acked"), (12, "acked")]
    assert (await capped.show())["pending"] == 0


async def test_it_is_said_of_the_same_ones_whether_the_batch_is_packed_or_not(
    capped: Caller, parts: Components
) -> None:
    ops = (init(4, E), init(8, E), init(12))
    assert await packed_words(capped, *ops, key="k") == ["pending", REFUSED, "acked"]
    await capped.post(ack(4, E))
    await forget_outcomes(parts)
    for _ in range(2):
        assert await capped.states(*ops, key="k") == ["duplicate", REFUSED, "duplicate"]
        assert await packed_words(capped, *ops, key="k") == ["duplicate", REFUSED, "duplicate"]


@pytest.mark.parametrize("later", [{"max_spout_pending": None}, {"max_spout_pending": 1}, {"max_spout_pending": 100}])
async def test_it_is_said_of_the_same_ones_whatever_the_cap_is_then(
    capped: Caller, parts: Components, later: Document
) -> None:
    """With a cap, roots without an init are applied before the others: the order is another one then."""
    ops = (init(4, E), ack(40, E), init(8, E), fail(44), init(12), ack(8, F))
    first = await capped.states(*ops, key="k")
    assert first == ["pending", "early", REFUSED, "early", "acked", "early"]
    await capped.post(ack(4, E))
    await forget_outcomes(parts)
    await capped.put(**later)
    again = await capped.states(*ops, key="k")
    assert again == ["duplicate", "early", REFUSED, "early", "duplicate", "early"]


async def test_two_inits_of_one_root_are_told_apart(capped: Caller, parts: Components) -> None:
    """The second one needs no place, for it ends the root."""
    ops = (init(4, E), init(8, E), init(8))
    assert await capped.states(*ops, key="k") == ["pending", REFUSED, "acked"]
    await capped.post(ack(4, E))
    await forget_outcomes(parts)
    assert await capped.states(*ops, key="k") == ["duplicate", REFUSED, "duplicate"]


async def test_one_of_many_is_found_again_in_every_shard(call: Caller, parts: Components) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=4, max_spout_pending=500)
    ops = [init(root, E) for root in range(1, 1_001)]
    first = await wide.states(*ops, key="k")
    assert first.count("pending") == 500
    await wide.states(*(ack(root, E) for root, state in enumerate(first, 1) if state == "pending"))
    await forget_outcomes(parts)
    await wide.put(max_spout_pending=None)
    expected = ["duplicate" if state == "pending" else REFUSED for state in first]
    assert await wide.states(*ops, key="k") == expected


async def test_what_is_remembered_of_refused_inits_is_small(capped: Caller, parts: Components) -> None:
    ops = [init(root, E) for root in range(1, 5_001)]
    await capped.states(*ops, key="k")
    sizes = [await at(parts, "MEMORY USAGE", key) for key in await find(parts, "acker:{capped/0}:*")]
    assert 0 < sum(sizes) < 16_384


async def test_a_batch_whose_inits_were_all_refused_is_answered_so_again(capped: Caller, parts: Components) -> None:
    """The client was answered 200 and has sent them in a new request: a late double must not begin them once more."""
    await capped.post(init(4, E))
    ops = (init(8, E), init(12, E))
    assert await capped.states(*ops, key="k") == [REFUSED] * 2
    await capped.put(max_spout_pending=None)
    assert await capped.states(*ops, key="new") == ["pending"] * 2
    await capped.states(ack(8, E), ack(12, E))
    await forget_outcomes(parts)
    late = await capped.batch(*ops, key="k")
    assert (late.json()["results"], is_replayed(late)) == ([REFUSED] * 2, True)
    assert (await capped.root(8))["code"] == "unknown_root"


async def test_an_init_that_was_refused_alone_in_its_shard_is_not_applied_by_a_late_double(
    call: Caller, parts: Components
) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=4, max_spout_pending=1)
    ops = (init(4, E), init(5, E))
    first = await wide.states(*ops, key="k")
    assert sorted(first) == [REFUSED, "pending"]
    taken, refused = sorted((4, 5), key=lambda root: first[root - 4] == REFUSED)
    await wide.post(ack(taken, E))
    await wide.states(init(refused), key="new")
    await forget_outcomes(parts)
    late = await wide.batch(*ops, key="k")
    expected = {taken: "duplicate", refused: REFUSED}
    assert (late.json()["results"], is_replayed(late)) == ([expected[4], expected[5]], True)
    assert (await wide.root(refused))["code"] == "unknown_root"


# What README 4 promises of a repeat: it changes nothing.


async def test_a_keyed_ack_of_a_finished_root_does_not_touch_a_later_root_of_that_id(
    call: Caller, parts: Components
) -> None:
    await call.states(init(4, E), fail(4))
    assert await call.state(ack(4, E), key="k") == "finished"
    await forget_outcomes(parts)
    await call.post(init(4, E, F))
    repeated = await call.post(ack(4, E), key="k")
    assert (repeated.json()["state"], is_replayed(repeated)) == ("pending", True)
    assert (await call.root(4))["outstanding"] == 2


async def test_a_keyed_fail_of_a_finished_root_does_not_fail_a_later_root_of_that_id(
    call: Caller, parts: Components
) -> None:
    await call.states(init(4))
    assert await call.state(fail(4), key="k") == "finished"
    await forget_outcomes(parts)
    await call.post(init(4, E))
    await call.post(fail(4), key="k")
    assert (await call.root(4))["state"] == "pending"


@pytest.mark.parametrize("op", [ack(4, E), fail(4)], ids=["ack", "fail"])
async def test_a_keyed_operation_of_a_finished_root_begins_no_tree_when_it_is_repeated(
    call: Caller, parts: Components, op: Document
) -> None:
    await call.states(init(4))
    await call.post(op, key="k")
    await forget_outcomes(parts)
    repeated = await call.post(op, key="k")
    assert (repeated.json()["state"], is_replayed(repeated)) == ("duplicate", True)
    assert (await call.root(4))["code"] == "unknown_root"


async def test_an_init_that_was_a_conflict_is_not_said_to_have_been_applied(call: Caller, parts: Components) -> None:
    await call.post(init(4, E, spout_task="others"))
    ops = (init(4, E), init(8, E))
    assert await call.states(*ops, key="k") == ["conflict", "pending"]
    await call.post(ack(4, E))
    await forget_outcomes(parts)
    first, second = await call.states(*ops, key="k")
    assert (first in {"conflict", REFUSED}, second) == (True, "pending")
    assert (await call.root(4))["code"] == "unknown_root"


async def test_a_keyed_reset_of_an_unknown_root_moves_no_deadline_when_it_is_repeated(call: Caller) -> None:
    assert await call.state(reset_timeout(4), key="k") == "unknown"
    await call.post(init(4, E))
    before = (await call.root(4))["deadline_at_ms"]
    repeated = await call.post(reset_timeout(4), key="k")
    assert is_replayed(repeated)
    assert (await call.root(4))["deadline_at_ms"] == before


async def test_a_batch_that_changed_nothing_is_known_in_all_its_shards(call: Caller, parts: Components) -> None:
    await call.states(*(init(root) for root in range(1, 9)))
    ops = [ack(root, E) for root in range(1, 9)]
    assert await call.states(*ops, key="k") == ["finished"] * 8
    await forget_outcomes(parts)
    again = await call.batch(*ops, key="k")
    assert (again.json()["results"], is_replayed(again)) == (["duplicate"] * 8, True)


@pytest.mark.parametrize("key", ["k", None], ids=["with a key", "without a key"])
async def test_a_repeated_init_of_a_remembered_root_does_not_make_its_spout_task_again(
    call: Caller, key: str | None
) -> None:
    await call.post(init(4), key=key)
    await delete_spout(call)
    assert await call.state(init(4), key=key) == "finished"
    assert (await call.spout())["code"] == "unknown_spout"


async def test_a_repeated_request_does_not_make_its_spout_task_again_after_the_retention(
    call: Caller, parts: Components
) -> None:
    await call.states(init(4), init(5), key="k")
    await delete_spout(call)
    await forget_outcomes(parts)
    assert await call.states(init(4), init(5), key="k") == ["duplicate"] * 2
    assert (await call.spout())["code"] == "unknown_spout"


async def test_a_repeated_init_of_a_pending_root_does_not_make_its_spout_task_again(call: Caller) -> None:
    await call.post(init(4, E), key="k")
    await delete_spout(call)
    await call.post(init(4, E), key="k")
    await call.post(init(4, E))
    assert (await call.spout())["code"] == "unknown_spout"


@pytest.mark.parametrize("cap", [None, 5])
async def test_a_repeat_beside_a_new_init_makes_only_the_spout_task_that_is_needed(
    call: Caller, cap: int | None
) -> None:
    await call.put(max_spout_pending=cap)
    await call.post(init(4, spout_task="gone"))
    await delete_spout(call, "gone")
    assert await call.states(init(4, spout_task="gone"), init(5, E, spout_task="new")) == ["finished", "pending"]
    assert (await call.spout("new"))["pending"] == 1
    assert (await call.spout("gone"))["code"] == "unknown_spout"


async def delete_spout(call: Caller, spout_task: str = "orders") -> None:
    gone = await call.http.delete(routes.spout("default", spout_task), params={"discard": True})
    assert gone.status_code == 204


def is_replayed(answer: httpx.Response) -> bool:
    return answer.headers.get(IDEMPOTENCY_REPLAYED) == "true"
