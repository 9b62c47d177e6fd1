"""No log line holds a message id or the reason of a failure, whatever becomes of the roots that have them."""

import asyncio
import logging
from typing import Any

import httpx
import pytest
from acker_protocol.errors import StoreUnavailable
from acker_protocol.ids import format_id
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings

from tests.support.caller import Caller, fail, init
from tests.support.overdue import overdue
from tests.support.tasks import root_expiry

pytestmark = pytest.mark.anyio

MARK = "order-42-of-Mrs-Miller"


async def test_message_ids_and_reasons_are_in_no_line(
    call: Caller, parts: Components, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="acker_service")
    orders = Caller(call.http, "orders")
    await orders.put()
    await orders.states(*[init(root, 9, message_id=f"{MARK}-{root}") for root in (1, 2, 3)])
    await orders.post(fail(1, reason=MARK, component="count"))
    await orders.force_fail(2, reason=MARK)
    await overdue(parts, orders, 4)
    await root_expiry(parts, interval=600)._run_measured("orders")
    for bad in (init(5, 9, message_id=MARK * 100), fail(6, reason=[MARK]), init(7, 9, message_id=MARK, edges=[MARK])):
        assert (await orders.post(bad)).status_code == 422
    await call.http.delete("/v1/topologies/orders?force=true&discard=true")
    assert MARK not in caplog.text
    assert "audit act=topology_deleted" in caplog.text


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), RuntimeError("unexpected")])
async def test_neither_are_they_where_the_acker_fails(
    parts: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.DEBUG, logger="acker_service")

    async def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(type(parts.roots), "force_fail", fails)
    monkeypatch.setattr(type(parts.applier), "begin", lambda *_: False)
    monkeypatch.setattr(type(parts.applier), "apply", fails)
    transport = httpx.ASGITransport(app=make_app(parts, Settings(), asyncio.Event()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        call = Caller(client)
        for op in (init(1, 9, message_id=MARK), fail(1, reason=MARK)):
            assert (await call.post(op)).status_code in (500, 503)
            assert (await call.batch(op)).status_code in (500, 503)
        address = f"/v1/topologies/default/roots/{format_id(1)}/fail"
        assert (await client.post(address, json={"reason": MARK})).status_code in (500, 503)
    assert MARK not in caplog.text
