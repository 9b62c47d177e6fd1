"""A callback shows its last error, its tries and its next try, and each moves as the delivery goes."""

from typing import Any

import pytest
from acker_protocol import routes
from acker_service.components import Components
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.topologies.callback import Webhook, register_callback

from tests.integration.delivery.test_deliveries import SECRET, SPOUT, START_MS, URL, Worker
from tests.support.caller import Caller, Document, init

pytestmark = pytest.mark.anyio

ADDRESS = routes.spout("default", SPOUT)
DONE = DeliveryResult(kind=ResultKind.DONE)


@pytest.fixture
async def worker(parts: Components, call: Caller) -> Worker:
    await call.put_spout(SPOUT)
    await parts.callbacks.change("default", SPOUT, _registered)
    return Worker(parts, "one")


def _registered(present: Any, now_ms: int) -> Any:
    return register_callback(Webhook(url=URL, secret=SECRET), present, now_ms=now_ms, make_secret=lambda: SECRET)


async def shown(call: Caller) -> Document:
    """The callback as its spout task shows it, without what does not change."""
    callback = (await call.spout())["callback"]
    return {name: value for name, value in callback.items() if name not in ("kind", "url")}


async def test_a_failing_receiver_moves_error_tries_and_next_try(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    untried = {"state": "on", "error": None, "attempt": 0, "next_attempt_at_ms": None, "last_delivered_at_ms": None}
    assert await shown(call) == untried
    await worker.fail(await worker.claim())
    first = await shown(call)
    assert (first["error"], first["attempt"], first["last_delivered_at_ms"]) == ("answered 500", 1, None)
    assert START_MS < first["next_attempt_at_ms"] <= START_MS + 2_000
    worker.now_ms = first["next_attempt_at_ms"]
    again = await worker.claim()
    refused = DeliveryResult(kind=ResultKind.RETRY, retry_ids=tuple(_ids(again)), error="connection refused")
    await worker.settle(again, refused)
    second = await shown(call)
    assert (second["error"], second["attempt"]) == ("connection refused", 2)
    assert second["next_attempt_at_ms"] > worker.now_ms


async def test_a_receiver_that_recovered_has_no_error_and_a_time(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    await worker.fail(await worker.claim())
    worker.now_ms += 10_000
    await worker.settle(await worker.claim(), DONE)
    over = await shown(call)
    delivered_ms = over.pop("last_delivered_at_ms")
    assert over == {"state": "on", "error": None, "attempt": 0, "next_attempt_at_ms": None}
    assert delivered_ms > 1_700_000_000_000


async def test_a_pause_ends_the_tries_and_a_resume_begins_them_anew(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    await worker.fail(await worker.claim())
    await call.http.post(f"{ADDRESS}/pause")
    paused = await shown(call)
    assert (paused["state"], paused["next_attempt_at_ms"]) == ("paused", None)
    await call.http.post(f"{ADDRESS}/resume")
    assert (await shown(call))["state"] == "on"
    claimed = await worker.claim()
    assert {entry.attempts for entry in claimed.entries} == {0}
    await worker.fail(claimed)
    tried = await shown(call)
    assert (tried["error"], tried["attempt"]) == ("answered 500", 1)
    assert tried["next_attempt_at_ms"] > worker.now_ms


async def test_a_resume_of_one_that_is_on_tries_now_what_waits_for_its_next_try(worker: Worker, call: Caller) -> None:
    await call.states(init(1))
    await worker.fail(await worker.claim())
    assert (await worker.claim()).entries == []
    await call.http.post(f"{ADDRESS}/resume")
    claimed = await worker.claim()
    assert {entry.attempts for entry in claimed.entries} == {0}


def _ids(claimed: Any) -> list[str]:
    return [name for entry in claimed.entries for name in entry.write().ids]
