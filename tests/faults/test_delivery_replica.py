"""With ``replica:n`` nothing is delivered, and nothing counts as delivered, that too few replicas have."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acker_protocol.routes import IDEMPOTENCY_KEY

from tests.support.caller import init
from tests.support.processes import freeze, thaw
from tests.support.receivers import Receiver, served
from tests.support.servers import AckerProcess, acker_serve
from tests.support.stores import Member, paired
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(300)

BASE = "/v1/topologies/default"
FEW = "only 0 of 1 replicas have it"
WAITS, LATER = (
    f"delivery for default/orders waits: {FEW}",
    f"what the webhook of default/orders took is settled later: {FEW}",
)
OPTIONS = (
    *("--durability", "replica:1", "--tick-ms", "50", "--log-level", "debug"),
    *("--callback-allow-hosts", "127.0.0.1", "--callback-schedule-s", ",".join(["0.2"] * 100)),
)


class Freezing(Receiver):
    """A receiver; before it answers, while it is armed, the replica is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.armed_for: Member | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if self.armed_for is not None:
            replica, self.armed_for = self.armed_for, None
            await asyncio.to_thread(freeze, replica.process.pid)
        await super().__call__(scope, receive, send)


@dataclass(frozen=True)
class Stage:
    """An acker whose writes count once the replica has them, and a webhook."""

    acker: AckerProcess
    replica: Member
    receiver: Freezing

    def end(self, *roots: int) -> int:
        """Let roots end, under the same key each time, and return the status."""
        ops, key = {"ops": [init(root) for root in roots]}, "-".join(map(str, roots))
        return self.acker.http.post(f"{BASE}/batch", json=ops, headers={IDEMPOTENCY_KEY: key}).status_code

    @property
    def delivered(self) -> list[int]:
        """The roots whose completions came, each as often as it did."""
        posts = [it.document["data"]["completions"] for it in self.receiver.received]
        return [int(done["root_id"], 16) for completions in posts for done in completions]

    def says(self, words: str) -> bool:
        """Whether the worker has found too few replicas, in these words."""
        return words in self.acker.log.read_text()

    def is_settled(self) -> bool:
        answer = self.acker.http.get(f"{BASE}/spouts/orders")
        return answer.is_success and answer.json()["unread"] == 0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    receiver = Freezing()
    with (
        paired(tmp_path) as (store, replica),
        served(receiver) as port,
        acker_serve(tmp_path / "acker", "--redis-url", store.url, *OPTIONS) as acker,
    ):
        callback = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/"}
        put = {"url": f"{BASE}/spouts/orders", "json": {"callback": callback}}
        eventually_true(lambda: acker.http.put(**put).is_success, within=60)  # the replica is waited for but a second
        stage = Stage(acker, replica, receiver)
        eventually_true(lambda: stage.end(1) == 200, within=60)
        eventually_true(lambda: set(stage.delivered) == {1} and stage.is_settled(), within=60)
        try:
            yield stage
        finally:
            thaw(replica.process.pid)


def test_what_ends_while_the_replica_is_frozen_is_delivered_once_it_has_it(stage: Stage) -> None:
    freeze(stage.replica.process.pid)
    assert stage.end(2, 3) == 503
    eventually_true(lambda: stage.says(WAITS), within=60)
    assert set(stage.delivered) == {1}
    thaw(stage.replica.process.pid)
    eventually_true(lambda: stage.end(2, 3) == 200, within=60)
    eventually_true(lambda: set(stage.delivered) == {1, 2, 3} and stage.is_settled(), within=60)


def test_what_was_delivered_while_the_replica_froze_is_settled_once_it_has_that(stage: Stage) -> None:
    stage.receiver.armed_for = stage.replica
    assert stage.end(2) in {200, 503}
    eventually_true(lambda: stage.says(LATER), within=60)
    assert 2 in stage.delivered
    thaw(stage.replica.process.pid)
    eventually_true(stage.is_settled, within=60)
    eventually_true(lambda: stage.end(3) == 200, within=60)
    eventually_true(lambda: set(stage.delivered) == {1, 2, 3} and stage.is_settled(), within=60)
