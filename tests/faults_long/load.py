"""A client of the load, as a process: ``python -m tests.faults_long.load PLAN``, the plan as JSON; ends at SIGTERM.

It sends trees over HTTP, records each request and answer in its history, and repeats with its key what has no answer.
"""

import asyncio
import contextlib
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from acker_protocol import routes
from acker_protocol.operations import REFUSED, Operation
from acker_protocol.wire import operations as plain
from acker_protocol.wire import packed

from tests.faults_long.trees import TreeDrawer
from tests.histories.records import History

FORMS = ("json", "packed", "single", "keyless")
"""Batches in JSON, packed batches, single operations, and single ones without a key."""

GIVE_UP_S = 25.0
"""A request is repeated for so long."""

REPEATED, ABANDONED = 0.03, 0.01
"""The shares of answered requests that are sent again, and of requests whose answer nobody waits for."""

TREES = {"json": 40, "packed": 150, "single": 2, "keyless": 2}
"""How many trees a worker sends at a time."""

OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a client does: it sends at most ``rate`` operations a second to the ``urls``, by so many ``workers``.

    It is recorded in its ``history``, unless that is empty.
    """

    history: str
    name: str
    seed: int
    urls: list[str]
    topology: str
    dedupes: bool
    spout_tasks: list[str]
    form: str
    rate: float
    workers: int = 3

    def dump(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))


class Client:
    """Sends trees until it is told to end; then it brings to their end those that it has begun."""

    def __init__(self, plan: Plan, history: History, http: httpx.AsyncClient) -> None:
        self._plan = plan
        self._history = history
        self._http = http
        self._chance = random.Random(f"{plan.seed} {plan.name}")
        self._numbers = itertools.count()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Send, until SIGTERM comes."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ended.set)
        async with asyncio.TaskGroup() as group:
            for number in range(self._plan.workers):
                group.create_task(self._work(number))

    async def _work(self, number: int) -> None:
        plan = self._plan
        spout_task = plan.spout_tasks[number % len(plan.spout_tasks)]
        other = plan.spout_tasks[(number + 1) % len(plan.spout_tasks)]
        chance = random.Random(f"{plan.seed} {plan.name} {number}")
        drawer = TreeDrawer(chance=chance, spout_task=spout_task, other_spout_task=other, dedupes=plan.dedupes)
        due = time.monotonic()
        while not self._ended.is_set():
            trees = [drawer.draw() for _ in range(TREES[plan.form])]
            for wave in map(list, map(itertools.chain.from_iterable, zip(*trees, strict=True))):
                chance.shuffle(wave)
                await self._send_wave(wave)
            due = max(due, time.monotonic() - 1) + sum(map(len, itertools.chain(*trees))) * plan.workers / plan.rate
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), max(0.0, due - time.monotonic()))

    async def _send_wave(self, wave: list[Operation]) -> None:
        """Send operations at the same time in one or two requests, or each by itself."""
        if self._plan.form in ("single", "keyless"):
            await asyncio.gather(*(self._send([operation]) for operation in wave))
        elif wave:
            half = len(wave) if self._chance.random() < 0.5 else len(wave) // 2
            await asyncio.gather(*(self._send(part) for part in (wave[:half], wave[half:]) if part))

    async def _send(self, operations: Sequence[Operation]) -> None:
        """Send a request until it is answered, and some of them once more."""
        key = None if self._plan.form == "keyless" else f"{self._plan.name}-{next(self._numbers)}"
        end = time.monotonic() + GIVE_UP_S
        answered = await self._attempt(operations, key)
        may_repeat = key is not None or self._plan.dedupes
        while not answered and may_repeat and time.monotonic() < end:
            await asyncio.sleep(self._chance.uniform(0.02, 0.3))
            answered = await self._attempt(operations, key)
        if answered and may_repeat and self._chance.random() < REPEATED:
            await self._attempt(operations, key)

    async def _attempt(self, operations: Sequence[Operation], key: str | None) -> bool:
        """Send a request once; return whether its answer tells the states."""
        verb, kind, body = self._written(operations)
        target = routes.operation(self._plan.topology, verb)
        headers = {"Content-Type": kind} | ({routes.IDEMPOTENCY_KEY: key} if key else {})
        patience_s = 0.004 if self._chance.random() < ABANDONED else self._chance.uniform(1, 6)
        number = self._history.sent("POST", target, key=key, content_type=kind, body=body)
        try:
            url = self._chance.choice(self._plan.urls) + target
            answer = await self._http.post(url, content=body, headers=headers, timeout=patience_s)
        except httpx.HTTPError:
            return False
        replayed = answer.headers.get(routes.IDEMPOTENCY_REPLAYED) == "true"
        self._history.answered(number, answer.status_code, replayed=replayed, body=answer.content)
        return answer.status_code == OK or _code(answer) in REFUSED

    def _written(self, operations: Sequence[Operation]) -> tuple[str, str, bytes]:
        """Return the verb, the content type and the body of a request."""
        if self._plan.form == "packed":
            return "batch", packed.CONTENT_TYPE, packed.encode_packed(operations)
        if self._plan.form == "json":
            return "batch", plain.CONTENT_TYPE, plain.encode_batch(operations)
        document = plain.encode_operation(operations[0])
        return document.pop("op"), plain.CONTENT_TYPE, json.dumps(document).encode()


def _code(answer: httpx.Response) -> str | None:
    try:
        return str(answer.json()["code"])
    except (ValueError, KeyError, TypeError):
        return None


async def main(plan: Plan) -> None:
    """Load the acker as planned."""
    limits = httpx.Limits(max_connections=50, max_keepalive_connections=10)
    with History(Path(plan.history) if plan.history else None) as history:
        async with httpx.AsyncClient(limits=limits) as http:
            await Client(plan, history, http).run()


if __name__ == "__main__":
    asyncio.run(main(Plan(**json.loads(sys.argv[1]))))
