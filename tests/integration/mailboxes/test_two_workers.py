"""Two workers deliver from one mailbox, by turns or at once, and lose nothing."""

import random
from collections import Counter
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.delivery.leases import ClaimedBatch
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.topologies.callback import Webhook, register_callback
from acker_service.topologies.cursors import dead_letter_list, decode_cursor

from tests.integration.delivery.test_deliveries import SPOUT, TWICE, Worker, ids
from tests.support.caller import Caller, init

pytestmark = pytest.mark.anyio


class Workers:
    """Two workers, which deliver from one mailbox."""

    def __init__(self, parts: Components, seed: int) -> None:
        self.random = random.Random(seed)
        self.parts = parts
        self.workers = [Worker(parts, "one"), Worker(parts, "two")]
        for worker in self.workers:
            worker.max_batch = 7
        self.accepted: Counter[str] = Counter()

    async def deliver(self, worker: Worker, claimed: ClaimedBatch) -> None:
        """Let the receiver take all, some or nothing of a batch, and settle it, perhaps twice."""
        names = ids(claimed)
        again = tuple(self.random.sample(names, self.random.choice([0, len(names), len(names) // 2])))
        self.accepted.update(set(names) - set(again))
        kind = ResultKind.PART if again else ResultKind.DONE
        for _ in range(self.random.choice([1, 2])):  # an answer of Redis may be lost
            await worker.settle(claimed, DeliveryResult(kind=kind, retry_ids=again, error="asked"))

    async def take_turns(self, *, together: bool) -> None:
        """Deliver until nothing is left; ``together`` lets both deliver each batch, as if a lease was too short."""
        idle = 0
        while idle < 4:
            first, second = self.random.sample(self.workers, 2)
            batches = [(first, await first.claim())]
            await self.parts.leases.release_lease(await first.lease())
            if together:
                batches.append((second, await second.claim()))
                await self.parts.leases.release_lease(await second.lease())
            idle = 0 if batches[0][1].entries else idle + 1
            for worker, claimed in batches:
                if claimed.entries:
                    await self.deliver(worker, claimed)
            for worker in self.workers:
                worker.now_ms += 10_000

    async def dead(self) -> list[tuple[int, int]]:
        """Return the roots of the dead letters, and how often they were tried."""
        lease = await self.workers[0].lease()
        start = decode_cursor(None, dead_letter_list(lease.topology, lease.spout))
        read = await self.parts.dead_letters.read(lease.topology, lease.spout, start, 10_000)
        return [(letter.completion.root_id, letter.attempts) for letter in read.letters]


async def _mailbox(parts: Components, call: Caller) -> dict[str, int]:
    """Fill a mailbox that a webhook owns, and return the root of each completion."""

    def change(present: Any, now_ms: int) -> Any:
        webhook = Webhook(url="http://receiver/hook")
        return register_callback(webhook, present, now_ms=now_ms, make_secret=lambda: "whsec_" + "A" * 32)

    await call.put_spout(SPOUT)
    await parts.callbacks.change("default", SPOUT, change)
    for first in range(1, 61, 12):
        await call.states(*[init(root) for root in range(first, first + 12)])
    completions = (await call.completions(limit=1_000))["completions"]
    return {done["id"]: int(done["root_id"], 16) for done in completions}


@pytest.mark.parametrize("seed", range(6))
async def test_two_workers_take_turns_and_deliver_each_completion_once(
    parts: Components, call: Caller, seed: int
) -> None:
    root_of = await _mailbox(parts, call)
    workers = Workers(parts, seed)
    await workers.take_turns(together=False)
    dead = await workers.dead()
    assert set(workers.accepted.values()) == {1}
    assert sorted([*(root_of[name] for name in workers.accepted), *(root for root, _ in dead)]) == [*range(1, 61)]
    assert {tried for _, tried in dead} <= {TWICE.max_attempts}
    assert (await call.spout())["unread"] == 0


@pytest.mark.parametrize("seed", range(6))
async def test_two_workers_that_deliver_the_same_lose_nothing(parts: Components, call: Caller, seed: int) -> None:
    root_of = await _mailbox(parts, call)
    workers = Workers(parts, seed)
    await workers.take_turns(together=True)
    dead = {root for root, _ in await workers.dead()}
    assert {root_of[name] for name in workers.accepted} | dead == {*range(1, 61)}
    assert (await call.spout())["unread"] == 0
