"""Those who are told: mailbox reader, webhook receiver, pub/sub subscriber; each a process that records what comes.

``python -m tests.faults_long.readers mailboxes|webhook|pubsub PLAN``, the plan as JSON; ends at SIGTERM.
"""

import asyncio
import json
import random
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from acker_client import AckerError, AsyncAcker, Completion
from acker_protocol import routes

from tests.histories.records import History

WAIT_MS = 2_000
PATIENCE_S = 8.0
AGAIN_S = 0.3
"""How long a reader waits for a page, for an answer, and after a fault."""

UNRELEASED = 0.1
"""The share of pages that a reader does not release, but reads again."""

REFUSED, UNRECORDED, IN_PART, HANGING = 0.04, 0.03, 0.03, 0.02
"""The shares of webhooks that are handled and refused, refused before, handled in part, and answered late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is read: ``spouts`` are pairs of a topology and a spout task, ``port`` is where webhooks come.

    It is recorded in its ``history``, unless that is empty.
    """

    history: str
    name: str
    seed: int
    urls: list[str]
    spouts: list[list[str]] = field(default_factory=list)
    port: int = 0
    redis_url: str = ""

    def dump(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))


class Mailboxes:
    """Reads completions page by page, and releases each page once it is recorded."""

    def __init__(self, plan: Plan, history: History, http: httpx.AsyncClient) -> None:
        self._plan = plan
        self._history = history
        self._http = http
        self._chance = random.Random(f"{plan.seed} {plan.name}")

    async def run(self) -> None:
        """Read all mailboxes until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for topology, spout_task in self._plan.spouts:
                group.create_task(self._read(topology, spout_task))

    async def _read(self, topology: str, spout_task: str) -> None:
        path, after = routes.completions(topology, spout_task), ""
        while True:
            page = await self._ask("GET", f"{path}?limit=1000&wait_ms={WAIT_MS}{after}")
            if page is None:
                await asyncio.sleep(AGAIN_S)
                continue
            after = f"&after={page['cursor']}"
            if page["completions"] and self._chance.random() < UNRELEASED:
                after = ""
            elif page["completions"]:
                await self._ask("POST", routes.release(topology, spout_task), {"cursor": page["cursor"]})

    async def _ask(self, method: str, target: str, document: object = None) -> Any:
        """Ask one of the ackers; None where no answer came, or it refused."""
        body = b"" if document is None else json.dumps(document).encode()
        number = self._history.sent(method, target, key=None, content_type="application/json", body=body)
        try:
            url = self._chance.choice(self._plan.urls) + target
            headers = {"Content-Type": "application/json"} if body else {}
            answer = await self._http.request(method, url, content=body or None, headers=headers, timeout=PATIENCE_S)
        except httpx.HTTPError:
            return None
        self._history.answered(number, answer.status_code, replayed=False, body=answer.content)
        return answer.json() if answer.is_success else None


class Webhook:
    """An ASGI application that records what it receives, and sometimes answers as if it had not, or late."""

    def __init__(self, plan: Plan, history: History) -> None:
        self._history = history
        self._chance = random.Random(f"{plan.seed} {plan.name}")

    async def __call__(self, _: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        document = json.loads(body)
        status, answer = self._answer(document["data"])
        if status != httpx.codes.SERVICE_UNAVAILABLE:
            self._history.told("webhook", json.dumps(document["data"]).encode())
        if self._chance.random() < HANGING:
            await asyncio.sleep(1)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _answer(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        drawn = self._chance.random()
        if drawn < UNRECORDED:
            return int(httpx.codes.SERVICE_UNAVAILABLE), {}
        if drawn < UNRECORDED + REFUSED:
            return int(httpx.codes.INTERNAL_SERVER_ERROR), {}
        again = [each["id"] for each in data["completions"][::2]] if drawn > 1 - IN_PART else []
        return int(httpx.codes.OK), {"retry": again}


async def read_mailboxes(plan: Plan, history: History) -> None:
    """Read the mailboxes of the plan."""
    async with httpx.AsyncClient() as http:
        await Mailboxes(plan, history, http).run()


async def receive_webhooks(plan: Plan, history: History) -> None:
    """Receive the webhooks of the plan."""
    config = uvicorn.Config(Webhook(plan, history), port=plan.port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    await server.serve()


async def subscribe(plan: Plan, history: History) -> None:
    """Record what the client's subscriber reads of the channels and mailboxes of the plan."""
    async with asyncio.TaskGroup() as group:
        for topology, spout_task in plan.spouts:
            group.create_task(_subscribe(plan, history, topology, spout_task))


async def _subscribe(plan: Plan, history: History, topology: str, spout_task: str) -> None:
    acker = AsyncAcker(plan.urls[0], topology=topology)
    while True:
        try:
            async for completion in acker.shared_spout(spout_task).subscribe(plan.redis_url):
                told = {"topology": topology, "completions": [_document(completion)]}
                history.told("pubsub", json.dumps(told).encode())
        except AckerError:
            await asyncio.sleep(AGAIN_S)


def _document(completion: Completion) -> dict[str, Any]:
    """Write a completion as the acker did."""
    document = {
        "id": completion.id,
        "root_id": completion.root_id,
        "outcome": completion.outcome.value,
        "message_id": completion.message_id,
        "reason": completion.reason,
        "component": completion.component,
        "complete_latency_ms": round(completion.complete_latency * 1000),
        "at_ms": round(completion.at * 1000),
    }
    if completion.failures is not None:
        document["failures"] = completion.failures
    if completion.dropped:
        document["dropped"] = completion.dropped
    if completion.outcome == "timed_out":
        last_ms = None if completion.last_ack_at is None else round(completion.last_ack_at * 1000)
        document |= {
            "last_component": completion.last_component,
            "last_ack_at_ms": last_ms,
            "outstanding": completion.outstanding,
        }
    return document


async def main(read: Callable[[Plan, History], Coroutine[Any, Any, None]], plan: Plan) -> None:
    """Read until SIGTERM."""
    with History(Path(plan.history) if plan.history else None) as history:
        reading = asyncio.create_task(read(plan, history))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
        try:
            await reading
        except asyncio.CancelledError:
            return


KINDS = {"mailboxes": read_mailboxes, "webhook": receive_webhooks, "pubsub": subscribe}

if __name__ == "__main__":
    asyncio.run(main(KINDS[sys.argv[1]], Plan(**json.loads(sys.argv[2]))))
