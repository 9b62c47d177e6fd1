"""Calls on callbacks: a pause, a test message, and what a registration refuses."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from acker_client.webhook import webhook_app
from acker_protocol import routes
from acker_protocol.signature import verify
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.delivery import webhook_tester
from acker_service.settings import Settings
from acker_service.topologies.callback import CallbackStatus, deactivate

from tests.integration.delivery.test_deliveries import Worker
from tests.support.caller import Caller, init
from tests.support.receivers import Broken, Planned, Receiver, met, served

pytestmark = pytest.mark.anyio

SPOUT = "orders"
AT = routes.spout("default", SPOUT)
PAUSE, RESUME, TEST = (route("default", SPOUT) for route in (routes.pause, routes.resume, routes.webhook_test))
SECRET = "whsec_" + "A" * 32
PUBLIC = {"kind": "webhook", "url": "https://orders.example/acker"}


@pytest.fixture
async def near(parts: Components, stopping: asyncio.Event) -> AsyncIterator[Caller]:
    """Calls an acker that may post to this machine."""
    app = make_app(parts, Settings(callback_allow_cidrs="127.0.0.0/8", store_port=6_400), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        yield Caller(http)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def url(receiver: Receiver) -> Iterator[str]:
    with served(receiver) as port:
        yield f"http://127.0.0.1:{port}/hook"


async def register(call: Caller, url: str) -> None:
    await call.put_spout(SPOUT, callback={"kind": "webhook", "url": url, "secret": SECRET})


async def post(call: Caller, address: str) -> dict[str, Any]:
    answer = await call.http.post(address)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


class TestPause:
    async def test_what_is_paused_is_not_on_until_it_is_resumed(self, near: Caller) -> None:
        await near.put_spout(SPOUT, callback=PUBLIC)
        for _ in range(2):
            assert await post(near, PAUSE) == {"state": "paused"}
        assert (await near.spout())["callback"]["state"] == "paused"
        assert await post(near, RESUME) == {"state": "on"}

    async def test_a_worker_delivers_nothing_to_it_and_all_after_a_resume(
        self, near: Caller, parts: Components
    ) -> None:
        await near.put_spout(SPOUT, callback=PUBLIC)
        await near.states(init(1))
        await post(near, PAUSE)
        topology = await parts.registry.refresh("default")
        [spout] = await parts.spouts.with_callback(topology)
        assert spout.callback is not None
        assert spout.callback.state is CallbackStatus.PAUSED
        await post(near, RESUME)
        assert len((await Worker(parts, "one").claim()).entries) == 1

    async def test_pubsub_is_paused_too(self, near: Caller) -> None:
        await near.put_spout(SPOUT, callback={"kind": "pubsub"})
        assert await post(near, PAUSE) == {"state": "paused"}

    async def test_what_is_off_stays_off(self, near: Caller, parts: Components) -> None:
        await near.put_spout(SPOUT, callback=PUBLIC)
        await parts.callbacks.change(
            "default", SPOUT, lambda present, _: present and deactivate(present, CallbackStatus.OFF, "answered 410")
        )
        assert await post(near, PAUSE) == {"state": "off"}

    async def test_without_a_callback_there_is_nothing_to_pause(self, near: Caller) -> None:
        assert (await near.http.post(PAUSE)).json()["code"] == "unknown_spout"
        await near.put_spout(SPOUT)
        assert (await near.http.post(PAUSE)).json()["code"] == "invalid"


class TestTest:
    async def test_one_signed_message_without_completions_is_posted(
        self, near: Caller, receiver: Receiver, url: str
    ) -> None:
        await register(near, url)
        await near.states(init(1))
        done = await post(near, TEST)
        assert done | {"took_ms": 0} == {"delivered": True, "status": 200, "error": None, "took_ms": 0}
        [it] = receiver.received
        verify([SECRET], it.headers, it.body, now=float(it.headers["webhook-timestamp"]))
        assert (it.document["type"], it.document["data"]) == (
            "completion.test",
            {"topology": "default", "spout_task": SPOUT, "completions": []},
        )
        assert len(await near.outcomes()) == 1

    async def test_each_message_has_an_id_of_its_own(self, near: Caller, receiver: Receiver, url: str) -> None:
        await register(near, url)
        for _ in range(2):
            await post(near, TEST)
        assert len({it.headers["webhook-id"] for it in receiver.received}) == 2

    @pytest.mark.parametrize("status", [204, 302, 401, 410, 500])
    async def test_the_answer_is_told_and_changes_nothing(
        self, near: Caller, receiver: Receiver, url: str, status: int
    ) -> None:
        await register(near, url)
        receiver.plan.append(Planned(status=status))
        done, is_done = await post(near, TEST), status == 204
        error = None if is_done else f"answered {status}"
        assert (done["delivered"], done["status"], done["error"]) == (is_done, status, error)
        assert (await near.spout())["callback"]["state"] == "on"

    async def test_half_an_answer_has_no_status(self, near: Caller) -> None:
        async with met(Broken(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")) as port:
            await register(near, f"http://127.0.0.1:{port}/")
            done = await post(near, TEST)
        assert (done["delivered"], done["status"]) == (False, None)
        assert "broke off" in done["error"]

    async def test_an_address_that_is_refused_is_not_connected_to(self, near: Caller, call: Caller, url: str) -> None:
        await register(near, url)
        done = await post(call, TEST)
        assert (done["delivered"], done["status"]) == (False, None)
        assert "the operator can allow it" in done["error"]

    async def test_a_paused_webhook_is_tested(self, near: Caller, url: str) -> None:
        await register(near, url)
        await post(near, PAUSE)
        assert (await post(near, TEST))["delivered"]
        assert (await near.spout())["callback"]["state"] == "paused"

    async def test_the_clients_receiver_takes_it_and_calls_no_handler(self, near: Caller) -> None:
        handled: list[Any] = []
        with served(webhook_app(SECRET, handled.append)) as port:
            await register(near, f"http://127.0.0.1:{port}/")
            assert (await post(near, TEST))["status"] == 200
        assert handled == []

    @pytest.mark.parametrize("callback", [None, {"kind": "pubsub"}])
    async def test_without_a_webhook_there_is_nothing_to_test(self, near: Caller, callback: Any) -> None:
        assert (await near.http.post(TEST)).json()["code"] == "unknown_spout"
        await near.put_spout(SPOUT, callback=callback)
        assert (await near.http.post(TEST)).json()["code"] == "invalid"

    async def test_too_many_at_once_are_refused(self, near: Caller, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(webhook_tester, "MAX_TESTS", 0)
        await register(near, url)
        assert (await near.http.post(TEST)).json()["code"] == "overloaded"


class TestRegistration:
    @pytest.mark.parametrize(
        "host",
        [
            *("localhost", "LOCALHOST.", "127.0.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7F.1", "0177.0.0.1"),
            *(
                "127.1",
                "0",
                "10.0.0.1",
                "169.254.169.254",
                "[::1]",
                "[::ffff:127.0.0.1]",
                "[::ffff:7f00:1]",
                "[fd00::1]",
            ),
        ],
    )
    async def test_an_address_that_would_be_refused_is_invalid_and_changes_nothing(
        self, call: Caller, host: str
    ) -> None:
        refused = await call.http.put(AT, json={"callback": {"kind": "webhook", "url": f"http://{host}:9000/hook"}})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        for name in ("ACKER_CALLBACK_ALLOW_CIDRS", "ACKER_CALLBACK_ALLOW_HOSTS"):
            assert name in refused.json()["detail"]
        assert (await call.spout())["code"] == "unknown_spout"

    @pytest.mark.parametrize(
        "host", ["orders.example", "localhost.example", "8.8.8.8", "[2606:4700::1111]", "0x08080808"]
    )
    async def test_a_name_and_a_public_address_are_taken(self, call: Caller, host: str) -> None:
        await call.put_spout(SPOUT, callback={"kind": "webhook", "url": f"http://{host}/hook"})

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433"])
    async def test_what_is_allowed_is_taken(self, near: Caller, host: str) -> None:
        await near.put_spout(SPOUT, callback={"kind": "webhook", "url": f"http://{host}/hook"})
