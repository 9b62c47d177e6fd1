"""Entries are claimed by one worker at a time, retried together and settled once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from acker_service.components import Components, TopologyLimits
from acker_service.delivery.leases import CallbackSuperseded, ClaimedBatch, Lease, TopologyChanged
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import EntryResult, MailboxEntry, Rest, Schedule, Settlement, plan_settlements
from acker_service.redis import functions
from acker_service.topologies.callback import CallbackStatus, Webhook, deactivate, register_callback, resume
from acker_service.topologies.cursors import dead_letter_list, decode_cursor

from tests.support.caller import Caller, init
from tests.support.documents import delivered
from tests.support.redis_side import find

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + "A" * 32
URL = "http://receiver/hook"
START_MS = 1_000_000
TWICE = Schedule(delays_s=(1, 10))
SPOUT = "orders"


class Worker:
    """Delivers for one spout task step by step, with a clock of its own."""

    def __init__(self, parts: Components, name: str, *, topology: str = "default") -> None:
        self.store = parts
        self.name = name
        self.topology = topology
        self.leases = parts.leases
        self.max_batch = 500
        self.splits_entries = True
        self.now_ms = START_MS

    async def lease(self) -> Lease:
        topology = await self.store.registry.refresh(self.topology)
        spout = await self.store.spouts.read(topology, SPOUT)
        return Lease(
            topology=topology,
            spout=spout,
            worker=self.name,
            lease_ms=60_000,
            max_batch=self.max_batch,
            splits_entries=self.splits_entries,
        )

    async def claim(self) -> ClaimedBatch:
        return await self.leases.claim(await self.lease(), self.now_ms)

    async def settle(self, claimed: ClaimedBatch, result: DeliveryResult, *, success: bool | None = None) -> None:
        settlements = list(plan_settlements(claimed.entries, result, TWICE, now_ms=self.now_ms, draw=0.5))
        if success is None:
            success = len(result.retry_ids) < len(ids(claimed))
        await self.leases.settle(await self.lease(), claimed, settlements, success=success, error=result.error or "")

    async def fail(self, claimed: ClaimedBatch) -> None:
        await self.settle(
            claimed, DeliveryResult(kind=ResultKind.RETRY, retry_ids=tuple(ids(claimed)), error="answered 500")
        )


def ids(claimed: ClaimedBatch) -> list[str]:
    return [name for entry in claimed.entries for name in entry.write().ids]


def roots(entries: Sequence[MailboxEntry]) -> list[int]:
    return sorted(int(document["root_id"], 16) for document in delivered(entries))


DONE = DeliveryResult(kind=ResultKind.DONE)


@pytest.fixture
async def worker(parts: Components, call: Caller) -> Worker:
    await call.put_spout(SPOUT)
    await parts.callbacks.change("default", SPOUT, _registered)
    return Worker(parts, "one")


def _registered(present: Any, now_ms: int) -> Any:
    return register_callback(Webhook(url=URL, secret=SECRET), present, now_ms=now_ms, make_secret=lambda: SECRET)


async def test_what_was_claimed_stays_in_the_mailbox_until_it_is_settled(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(1, 9)])
    claimed = await worker.claim()
    assert roots(claimed.entries) == [*range(1, 9)]
    assert len(await call.outcomes()) == 8
    assert roots((await worker.claim()).entries) == [*range(1, 9)]
    await worker.settle(claimed, DONE)
    assert await call.outcomes() == []
    assert (await call.spout())["unread"] == 0
    assert not (await worker.claim()).entries


async def test_what_is_claimed_has_the_form_of_a_pull(worker: Worker, call: Caller) -> None:
    await call.states(init(1, message_id="42"))
    pulled = (await call.completions())["completions"]
    assert delivered((await worker.claim()).entries) == pulled


async def test_settling_again_changes_nothing(worker: Worker, call: Caller) -> None:
    await call.states(init(1), init(2))
    claimed = await worker.claim()
    for _ in range(3):
        await worker.settle(claimed, DONE)
    assert (await call.spout())["unread"] == 0
    assert (await worker.store.stats.read((await worker.lease()).topology)).deliveries["delivered"] == 2


async def test_a_failure_that_comes_after_the_success_of_another_worker_changes_nothing(
    worker: Worker, call: Caller
) -> None:
    await call.states(init(1))
    claimed = await worker.claim()
    await worker.settle(claimed, DONE)
    await worker.fail(claimed)
    worker.now_ms += 3_600_000
    assert not (await worker.claim()).entries
    assert (await call.spout())["unread"] == 0


async def test_one_worker_at_a_time_has_the_lease_and_may_give_it_back(worker: Worker, call: Caller) -> None:
    other = Worker(worker.store, "two")
    await call.states(init(1))
    assert (await worker.claim()).entries
    held = await other.claim()
    assert (held.entries, 0 < (held.leased_for_ms or 0) <= 60_000) == ((), True)
    await worker.store.leases.release_lease(await worker.lease())
    assert (await other.claim()).entries
    assert (await worker.claim()).leased_for_ms is not None


async def test_nobody_gives_back_the_lease_of_another(worker: Worker) -> None:
    other = Worker(worker.store, "two")
    await worker.claim()
    await worker.store.leases.release_lease(await other.lease())
    assert (await other.claim()).leased_for_ms is not None


async def test_a_receiver_that_is_left_alone_gets_nothing_from_another_worker(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    claimed, lease = await worker.claim(), await worker.lease()
    failed = DeliveryResult(kind=ResultKind.WAIT, retry_ids=tuple(ids(claimed)), wait_s=60, error="answered 503")
    settlements = list(plan_settlements(claimed.entries, failed, TWICE, now_ms=worker.now_ms, draw=0.5))
    await worker.leases.settle(lease, claimed, settlements, success=False, rest=Rest(backoff_s=60))
    for name in ("one", "two"):
        held = await Worker(worker.store, name).claim()
        assert 50_000 < (held.leased_for_ms or 0) <= 60_000


async def test_a_lease_that_is_past_is_anothers(worker: Worker) -> None:
    await worker.store.leases.claim(replace(await worker.lease(), lease_ms=0), START_MS)
    assert (await Worker(worker.store, "two").claim()).leased_for_ms is None


async def test_what_failed_is_tried_again_when_it_is_due_and_in_the_same_set(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(1, 9)])
    claimed = await worker.claim()
    await worker.fail(claimed)
    await call.states(init(9))
    fresh = await worker.claim()
    assert roots(fresh.entries) == [9]
    await worker.settle(fresh, DONE)
    idle = await worker.claim()
    assert (list(idle.entries), idle.due_ms) == ([], START_MS + 1_000)
    worker.now_ms += 999
    assert not (await worker.claim()).entries
    worker.now_ms += 1
    again = await worker.claim()
    assert again.is_retry
    assert ids(again) == ids(claimed)
    assert {entry.attempts for entry in again.entries} == {1}


async def test_a_failure_that_is_settled_again_counts_once(worker: Worker, call: Caller) -> None:
    await call.states(init(1), init(2))
    claimed = await worker.claim()
    for _ in range(3):
        await worker.fail(claimed)
    worker.now_ms += 1_000
    again = await worker.claim()
    assert {entry.attempts for entry in again.entries} == {1}
    assert (await worker.store.stats.read((await worker.lease()).topology)).deliveries["retried"] == 2


async def test_a_failure_that_comes_late_takes_back_no_try_and_puts_nothing_off(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    late = await worker.claim()
    await worker.fail(late)
    worker.now_ms += 1_000
    await worker.fail(await worker.claim())
    due_ms = (await worker.claim()).due_ms
    worker.now_ms += 5_000
    await worker.fail(late)
    assert (await worker.claim()).due_ms == due_ms
    worker.now_ms += 5_000
    assert {entry.attempts for entry in (await worker.claim()).entries} == {2}


async def test_sets_that_failed_apart_are_tried_apart(worker: Worker, call: Caller) -> None:
    sets = []
    for first in (1, 11):
        await call.states(*[init(root) for root in range(first, first + 6)])
        claimed = await worker.claim()
        sets.append(roots(claimed.entries))
        await worker.fail(claimed)
        worker.now_ms += 10
    worker.now_ms += 3_600_000
    seen = []
    for _ in sets:
        claimed = await worker.claim()
        seen.append(roots(claimed.entries))
        await worker.settle(claimed, DONE)
    assert seen == sets == [[*range(1, 7)], [*range(11, 17)]]


async def test_what_a_receiver_asks_for_again_is_all_that_is_left(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(4, 44, 4)])
    claimed = await worker.claim()
    left = tuple(ids(claimed)[3:5])
    await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=left, error="asked"))
    assert (await call.spout())["unread"] == 2
    assert not (await worker.claim()).entries
    worker.now_ms += 1_000
    again = await worker.claim()
    assert ids(again) == [*left]
    await worker.settle(again, DONE)
    assert (await call.spout())["unread"] == 0
    totals = (await worker.store.stats.read((await worker.lease()).topology)).deliveries
    assert (totals["delivered"], totals["retried"]) == (10, 2)


async def test_parts_that_wait_for_their_next_try_hide_nothing_fresh(worker: Worker, call: Caller) -> None:
    """Parts become entries of their own behind what is fresh; ever more of them are passed over."""
    for root in range(4, 400, 8):
        await call.states(init(root), init(root + 4))
        claimed = await worker.claim()
        assert roots(claimed.entries) == [root, root + 4]
        await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=(ids(claimed)[0],), error="asked"))
    await call.states(init(1_000))
    assert roots((await worker.claim()).entries) == [1_000]


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "failed"])
async def test_a_part_that_is_tried_again_hides_nothing_that_was_never_tried(
    worker: Worker, call: Caller, *, taken: bool
) -> None:
    """Its entry is newer than what waited before it."""
    worker.max_batch = 2
    for root in range(4, 28, 8):
        await call.states(init(root), init(root + 4))
    claimed = await worker.claim()
    await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=(ids(claimed)[0],), error="asked"))
    worker.now_ms += 1_000
    part = await worker.claim()
    assert (roots(part.entries), part.is_retry) == ([4], True)
    await (worker.settle(part, DONE) if taken else worker.fail(part))
    assert roots((await worker.claim()).entries) == [12, 16]


async def test_what_no_try_succeeds_for_becomes_dead_letters(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(1, 6)])
    for _ in range(TWICE.max_attempts):
        await worker.fail(await worker.claim())
        worker.now_ms += 10_000
    assert not (await worker.claim()).entries
    shown = await call.spout()
    assert (shown["unread"], shown["dead_letters"]) == (0, 5)
    lease = await worker.lease()
    read = await worker.store.dead_letters.read(
        lease.topology, lease.spout, decode_cursor(None, dead_letter_list(lease.topology, lease.spout)), 3
    )
    rest = await worker.store.dead_letters.read(lease.topology, lease.spout, read.cursor, 100)
    letters = [*read.letters, *rest.letters]
    assert (len(read.letters), sorted(it.completion.root_id for it in letters)) == (3, [1, 2, 3, 4, 5])
    assert {(it.attempts, it.error) for it in letters} == {(3, "answered 500")}


async def dead(worker: Worker, call: Caller) -> Lease:
    """Let five completions become dead letters."""
    await call.states(*[init(root) for root in range(1, 6)])
    for _ in range(TWICE.max_attempts):
        await worker.fail(await worker.claim())
        worker.now_ms += 10_000
    return await worker.lease()


async def test_dead_letters_that_are_replayed_are_delivered_as_if_never_tried(worker: Worker, call: Caller) -> None:
    lease = await dead(worker, call)
    assert await worker.store.dead_letters.replay(lease.topology, lease.spout) == 5
    shown = await call.spout()
    assert (shown["unread"], shown["dead_letters"]) == (5, 0)
    claimed = await worker.claim()
    assert (roots(claimed.entries), {entry.attempts for entry in claimed.entries}) == ([1, 2, 3, 4, 5], {0})


async def test_dead_letters_that_are_discarded_are_counted(worker: Worker, call: Caller) -> None:
    lease = await dead(worker, call)
    assert await worker.store.dead_letters.discard(lease.topology, lease.spout) == 5
    assert (await call.spout())["dead_letters"] == 0
    totals = (await worker.store.stats.read(lease.topology)).deliveries
    assert (totals["dead"], totals["discarded"]) == (5, 5)


async def test_a_large_entry_is_divided_and_nothing_of_it_is_lost(worker: Worker, call: Caller) -> None:
    worker.max_batch = 100
    await call.states(*[init(root, message_id="x" * (root % 90), spout_task=SPOUT) for root in range(4, 4_004, 4)])
    seen: list[int] = []
    while (claimed := await worker.claim()).entries or claimed.more:
        assert len(ids(claimed)) <= 100
        seen += roots(claimed.entries)
        await worker.settle(claimed, DONE)
    assert sorted(seen) == [*range(4, 4_004, 4)]
    assert (await call.spout())["unread"] == 0


@pytest.mark.parametrize("max_batch", [500, 4])
async def test_what_was_released_of_an_entry_before_is_not_delivered(
    worker: Worker, call: Caller, max_batch: int
) -> None:
    worker.max_batch = max_batch
    await worker.store.callbacks.change("default", SPOUT, lambda *_: None)
    await call.states(*[init(root) for root in range(4, 44, 4)])
    await call.release((await call.completions(limit=3))["cursor"])
    await worker.store.callbacks.change("default", SPOUT, _registered)
    seen: list[int] = []
    while (claimed := await worker.claim()).entries or claimed.more:
        seen += roots(claimed.entries)
        await worker.settle(claimed, DONE)
    assert seen == [*range(16, 44, 4)]
    assert (await call.spout())["unread"] == 0


async def test_a_part_of_what_was_released_in_part_counts_right(worker: Worker, call: Caller) -> None:
    await worker.store.callbacks.change("default", SPOUT, lambda *_: None)
    await call.states(*[init(root) for root in range(4, 44, 4)])
    await call.release((await call.completions(limit=3))["cursor"])
    await worker.store.callbacks.change("default", SPOUT, _registered)
    claimed = await worker.claim()
    await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=(ids(claimed)[0],), error="asked"))
    assert (await call.spout())["unread"] == 1


async def release(worker: Worker, entry: MailboxEntry, count: int) -> None:
    """Release the first completions of an entry, as a reader does who came before the callback."""
    lease = await worker.lease()
    call = functions.mailboxes.release(spout_index=lease.spout.index, entry=entry.name, offset=count, max_entries=100)
    await worker.store.shards.call(lease.topology, entry.shard, call)


@pytest.mark.parametrize(("asked_for", "left"), [(slice(0, 5), [16, 20]), (slice(0, 2), []), (slice(9, 10), [40])])
async def test_what_is_released_while_it_is_delivered_is_not_delivered_again(
    worker: Worker, call: Caller, asked_for: slice, left: list[int]
) -> None:
    await call.states(*[init(root) for root in range(4, 44, 4)])
    claimed = await worker.claim()
    await release(worker, claimed.entries[0], 3)
    again = tuple(ids(claimed)[asked_for])
    await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=again, error="asked"))
    assert (await call.spout())["unread"] == len(left)
    worker.now_ms += 1_000
    assert roots((await worker.claim()).entries) == left


async def test_what_was_released_is_not_among_the_dead_letters(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(4, 44, 4)])
    for _ in range(TWICE.max_attempts):
        claimed = await worker.claim()
        if not claimed.is_retry:
            await release(worker, claimed.entries[0], 3)
        await worker.fail(claimed)
        worker.now_ms += 10_000
    shown, lease = await call.spout(), await worker.lease()
    assert (shown["unread"], shown["dead_letters"]) == (0, 7)
    read = await worker.store.dead_letters.read(
        lease.topology, lease.spout, decode_cursor(None, dead_letter_list(lease.topology, lease.spout)), 100
    )
    assert [letter.completion.root_id for letter in read.letters] == [*range(16, 44, 4)]


async def test_an_entry_of_which_all_is_asked_for_again_stays_the_same_entry(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(4, 44, 4)])
    claimed = await worker.claim()
    await release(worker, claimed.entries[0], 3)
    again = tuple(ids(claimed)[3:])
    await worker.settle(claimed, DeliveryResult(kind=ResultKind.PART, retry_ids=again, error="asked"))
    worker.now_ms += 1_000
    [entry] = (await worker.claim()).entries
    assert (entry.name, entry.skipped, len(entry.completions)) == (claimed.entries[0].name, 3, 7)


async def test_a_callback_that_was_led_elsewhere_begins_anew(worker: Worker, call: Caller) -> None:
    await call.states(init(1), init(2))
    old = await worker.lease()
    claimed = await worker.claim()
    await worker.fail(claimed)

    def elsewhere(present: Any, now_ms: int) -> Any:
        return register_callback(Webhook(url=URL + "2"), present, now_ms=now_ms, make_secret=lambda: SECRET)

    await worker.store.callbacks.change("default", SPOUT, elsewhere)
    again = await worker.claim()
    assert (roots(again.entries), {entry.attempts for entry in again.entries}) == ([1, 2], {0})
    with pytest.raises(TopologyChanged):
        await worker.store.leases.claim(old, worker.now_ms)
    with pytest.raises(CallbackSuperseded):
        await worker.store.leases.claim(replace(old, topology=(await worker.lease()).topology), worker.now_ms)


async def test_a_failure_of_the_old_callback_does_not_put_off_the_new_one(worker: Worker, call: Caller) -> None:
    await call.states(init(1), init(2))
    old, claimed = await worker.lease(), await worker.claim()

    def elsewhere(present: Any, now_ms: int) -> Any:
        return register_callback(Webhook(url=URL + "2"), present, now_ms=now_ms, make_secret=lambda: SECRET)

    await worker.store.callbacks.change("default", SPOUT, elsewhere)
    assert roots((await worker.claim()).entries) == [1, 2]
    failed = DeliveryResult(kind=ResultKind.RETRY, retry_ids=tuple(ids(claimed)), error="answered 500")
    settlements = list(plan_settlements(claimed.entries, failed, TWICE, now_ms=worker.now_ms, draw=0.5))
    await worker.store.leases.settle(old, claimed, settlements, success=False, error="answered 500")
    again = await worker.claim()
    assert (roots(again.entries), again.failing_ms) == ([1, 2], None)


async def test_of_a_callback_that_was_resumed_all_is_tried_at_once(worker: Worker, call: Caller) -> None:
    await call.states(init(1), init(2))
    await worker.fail(await worker.claim())
    change = worker.store.callbacks.change
    await change("default", SPOUT, lambda present, _: deactivate(present, CallbackStatus.PAUSED, "answered 500"))  # type: ignore[arg-type]
    await change("default", SPOUT, lambda present, now_ms: resume(present, now_ms=now_ms))  # type: ignore[arg-type]
    assert roots((await worker.claim()).entries) == [1, 2]


async def test_since_when_nothing_succeeded_is_remembered_until_something_does(worker: Worker, call: Caller) -> None:
    await call.states(*[init(root) for root in range(1, 9)])
    claimed = await worker.claim()
    await worker.fail(claimed)
    worker.now_ms += 1_000
    again = await worker.claim()
    assert again.failing_ms is not None
    await worker.settle(again, DONE)
    assert (await worker.claim()).failing_ms is None


async def test_a_success_on_one_shard_is_one_for_all(worker: Worker, call: Caller) -> None:
    await call.states(init(4))
    await worker.fail(await worker.claim())
    await call.states(init(1))
    claimed = await worker.claim()
    assert roots(claimed.entries) == [1]
    await worker.settle(claimed, DONE)
    assert (await worker.claim()).failing_ms is None


async def test_what_is_published_stays_and_is_claimed_once(worker: Worker, call: Caller) -> None:
    worker.max_batch, worker.splits_entries = 4, False
    await call.states(*[init(root) for root in range(4, 44, 4)])
    claimed = await worker.claim()
    assert [len(entry.completions) for entry in claimed.entries] == [10]
    sent = [Settlement(entry=entry, result=EntryResult.SENT) for entry in claimed.entries]
    await worker.store.leases.settle(await worker.lease(), claimed, sent, success=None)
    assert not (await worker.claim()).entries
    assert len(await call.outcomes()) == (await call.spout())["unread"] == 10


async def test_a_spout_task_that_is_removed_leaves_nothing_behind(worker: Worker, call: Caller) -> None:
    await dead(worker, call)
    await call.states(*[init(root) for root in range(11, 20)])
    await worker.fail(await worker.claim())
    answer = await call.http.delete(f"/v1/topologies/default/spouts/{SPOUT}")
    assert (answer.status_code, "dead letters" in answer.json()["detail"]) == (409, True)
    assert (await call.http.delete(f"/v1/topologies/default/spouts/{SPOUT}?discard=true")).status_code == 204
    names = {key.rpartition(":")[2] for key in await find(worker.store, "acker:*")}
    assert not {name for name in names if name.startswith(("m0", "d0", "retry", "tries", "sent", "dead", "failing"))}


async def test_dead_letters_fill_a_mailbox(worker: Worker, call: Caller) -> None:
    await dead(worker, call)
    narrow = Components(worker.store.redis.url, window_ms=600_000, limits=TopologyLimits(mailbox_max=5))
    await narrow.backpressure.refresh()
    lease = await worker.lease()
    assert await narrow.backpressure.full_mailboxes(lease.topology, [lease.spout.index]) == {lease.spout.index}
    await narrow.close()
