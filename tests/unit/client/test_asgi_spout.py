"""Tests the middleware that emits a root for each request, where no acker has to run."""

import httpx
import pytest
from acker_client import UsageError
from acker_client.integrations.asgi_spout import ROOT_KEY, SpoutMiddleware

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery staple"


async def take_order(scope, _, send):
    scope[ROOT_KEY].anchor("charge")
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b"taken"})


async def test_a_middleware_that_was_made_before_a_fork_emits_in_the_child(async_acker, service, monkeypatch):
    """As by a server that loads the application before it forks its workers (``gunicorn --preload``)."""
    middleware = SpoutMiddleware(take_order, acker=async_acker, spout="orders", secret=SECRET)
    monkeypatch.setattr(middleware, "_start_reader", lambda: None)
    async_acker.after_fork_in_child()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=middleware), base_url="http://app") as http:
        answer = await http.post("/")
    assert (answer.status_code, answer.content) == (202, b"taken")
    assert len(service.roots) == 1


async def test_a_name_that_is_none_is_reported_at_the_start(async_acker):
    with pytest.raises(UsageError, match="the spout's name"):
        SpoutMiddleware(take_order, acker=async_acker, spout="no name", secret=SECRET)
