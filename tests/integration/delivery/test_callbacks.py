"""Callbacks: how they are registered, shown, changed; and what is done with dead letters."""

from typing import Any

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.signature import secret_key
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings
from acker_service.topologies.callback import ROTATION_MS, CallbackStatus, deactivate

from tests.integration.delivery.test_deliveries import Worker, dead
from tests.support.caller import Caller, init
from tests.support.exposition import scrape
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SPOUT = "orders"
AT = routes.spout("default", SPOUT)
URL = "https://orders.example/acker"
SECRET = "whsec_" + "A" * 32
WEBHOOK = {"kind": "webhook", "url": URL}
UNTRIED = {"error": None, "attempt": 0, "next_attempt_at_ms": None, "last_delivered_at_ms": None}
ON = {"kind": "webhook", "url": URL, "state": "on", **UNTRIED}


async def put(call: Caller, callback: Any) -> dict[str, Any]:
    return dict((await call.put_spout(SPOUT, callback=callback)).json()["callback"])


async def test_a_secret_is_made_and_shown_once(call: Caller) -> None:
    made = await put(call, WEBHOOK)
    assert len(secret_key(made.pop("secret"))) == 32
    assert made == ON
    assert (await call.spout())["callback"] == ON
    assert (await call.http.get(routes.spouts("default"))).json()["spouts"][0]["callback"] == ON
    assert await put(call, WEBHOOK) == ON


async def test_a_secret_that_was_given_is_never_shown(call: Caller) -> None:
    assert await put(call, WEBHOOK | {"secret": SECRET}) == ON
    assert await signing(call) == [SECRET]


async def signing(call: Caller) -> list[str]:
    """Return the secrets that sign now, as the store has them."""
    store: Components = call.http.store  # type: ignore[attr-defined]
    topology = await store.registry.refresh("default")
    callback = (await store.spouts.read(topology, SPOUT)).callback
    assert callback is not None
    return callback.secrets_at(await store.registry.now_ms())


@pytest.fixture(autouse=True)
def _reach(call: Caller, parts: Components) -> None:
    call.http.store = parts  # type: ignore[attr-defined]


async def test_a_put_without_a_secret_keeps_the_present_one(call: Caller) -> None:
    await put(call, WEBHOOK | {"secret": SECRET})
    assert await put(call, {"kind": "webhook", "url": URL + "/2"}) == ON | {"url": URL + "/2"}
    assert await signing(call) == [SECRET]


async def test_a_put_that_leaves_the_callback_out_keeps_it(call: Caller) -> None:
    await put(call, WEBHOOK)
    shown = (await call.put_spout(SPOUT, ephemeral=True)).json()
    assert (shown["callback"], shown["ephemeral"]) == (ON, True)


async def test_null_takes_a_callback_away(call: Caller) -> None:
    await put(call, WEBHOOK)
    assert (await call.put_spout(SPOUT, callback=None)).json()["callback"] is None


async def test_a_rotation_signs_with_both_for_a_day(call: Caller, parts: Components) -> None:
    await put(call, WEBHOOK | {"secret": SECRET})
    second = (await call.http.post(routes.rotate("default", SPOUT))).json()["secret"]
    assert await signing(call) == [second, SECRET]
    callback = (await parts.spouts.read(await parts.registry.refresh("default"), SPOUT)).callback
    assert callback is not None
    now_ms = await parts.registry.now_ms()
    assert callback.secrets_at(now_ms + ROTATION_MS - 60_000) == [second, SECRET]
    assert callback.secrets_at(now_ms + ROTATION_MS) == [second]
    third = (await call.http.post(routes.rotate("default", SPOUT))).json()["secret"]
    assert await signing(call) == [third, second]


@pytest.mark.parametrize("callback", [None, {"kind": "pubsub"}])
async def test_without_a_webhook_there_is_no_secret_to_rotate(
    parts: Components, stopping: Any, callback: dict[str, str] | None
) -> None:
    async with reachable(parts, stopping) as http:
        await http.put(AT, json={"callback": callback})
        refused = await http.post(routes.rotate("default", SPOUT))
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize("address", [routes.rotate("default", SPOUT), routes.resume("default", SPOUT)])
async def test_what_is_not_there_cannot_be_rotated_nor_resumed(call: Caller, address: str) -> None:
    assert (await call.http.post(address)).json()["code"] == "unknown_spout"
    await call.put_spout(SPOUT)
    assert (await call.http.post(address)).json()["code"] == "invalid"


def reachable(parts: Components, stopping: Any) -> httpx.AsyncClient:
    """An acker whose store others can reach."""
    app = make_app(parts, Settings(store_port=6_400), stopping)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


async def test_pubsub_is_refused_where_nobody_could_subscribe(call: Caller, parts: Components, stopping: Any) -> None:
    refused = await call.http.put(AT, json={"callback": {"kind": "pubsub"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert "--store-port" in refused.json()["detail"]
    async with reachable(parts, stopping) as http:
        shown = (await http.put(AT, json={"callback": {"kind": "pubsub"}})).json()
        assert shown["callback"] == {"kind": "pubsub", "state": "on", **UNTRIED, "attempt": None}


@pytest.mark.parametrize(
    "callback",
    [
        {},
        {"kind": "carrier pigeon"},
        {"kind": "webhook"},
        {"kind": "webhook", "url": "ftp://orders.example"},
        {"kind": "webhook", "url": "https://user:word@orders.example"},
        {"kind": "webhook", "url": URL, "secret": "short"},
        {"kind": "webhook", "url": URL, "state": "on"},
        "webhook",
        [],
    ],
)
async def test_what_is_no_callback_is_refused_and_changes_nothing(call: Caller, callback: Any) -> None:
    refused = await call.http.put(AT, json={"callback": callback})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert (await call.spout())["code"] == "unknown_spout"


async def test_what_a_webhook_owns_is_read_by_others_and_not_released(call: Caller) -> None:
    await put(call, WEBHOOK)
    await call.states(init(1))
    read = await call.completions()
    refused = await call.http.post(routes.release("default", SPOUT), json={"cursor": read["cursor"]})
    assert (refused.status_code, refused.json()["code"], len(read["completions"])) == (409, "mailbox_owned", 1)
    await call.put_spout(SPOUT, callback=None)
    assert await call.release(read["cursor"]) == 1


async def test_a_change_reaches_another_replica(
    call: Caller, parts: Components, valkey_url: str, stopping: Any
) -> None:
    replica = Components(valkey_url, window_ms=600_000)
    app = make_app(replica, Settings(), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://other.localhost") as http:
        other = Caller(http)
        await other.states(init(1))
        cursor = (await other.completions())["cursor"]
        await put(call, WEBHOOK)
        refused = await http.post(routes.release("default", SPOUT), json={"cursor": cursor})
        assert refused.json()["code"] == "mailbox_owned"
        await call.states(init(2))
        assert len((await other.completions())["completions"]) == 2
    await replica.close()


async def test_one_that_is_paused_is_resumed_by_a_call_and_not_by_a_put_of_the_same(
    call: Caller, parts: Components
) -> None:
    await put(call, WEBHOOK)
    pause = parts.callbacks.change
    await pause(
        "default", SPOUT, lambda present, _: present and deactivate(present, CallbackStatus.PAUSED, "answered 500")
    )
    paused = ON | {"state": "paused", "error": "answered 500"}
    assert await put(call, WEBHOOK) == paused
    for _ in range(2):
        assert (await call.http.post(routes.resume("default", SPOUT))).json() == {"state": "on"}
    assert (await call.spout())["callback"] == ON
    await pause(
        "default", SPOUT, lambda present, _: present and deactivate(present, CallbackStatus.OFF, "answered 410")
    )
    assert (await put(call, {"kind": "webhook", "url": URL + "/2"}))["state"] == "on"


@pytest.fixture
async def worker(call: Caller, parts: Components) -> Worker:
    await put(call, WEBHOOK)
    return Worker(parts, "one")


async def test_the_metrics_tell_what_waits_for_a_callback_and_for_how_long(call: Caller, parts: Components) -> None:
    await put(call, WEBHOOK)
    await call.states(init(1), init(2), init(3, spout_task="pulled"))
    labels = {"topology": "default", "spout_task": SPOUT}

    async def values(name: str) -> list[float]:
        """What the last look at the store found; looks are a second apart."""
        samples = (await scrape(call.http)).families[name].samples
        assert all(sample.labels == labels for sample in samples)
        return [sample.value for sample in samples]

    async def waiting() -> bool:
        return (await values("acker_callback_unread"), await values("acker_callback_on")) == ([2], [1])

    await eventually(waiting)

    async def older() -> bool:
        return (await values("acker_callback_age_seconds"))[0] > 0.5

    await eventually(older)
    await parts.callbacks.change(
        "default", SPOUT, lambda present, _: present and deactivate(present, CallbackStatus.PAUSED, "answered 500")
    )

    async def paused() -> bool:
        return await values("acker_callback_on") == [0]

    await eventually(paused)


async def test_dead_letters_are_listed_page_by_page(worker: Worker, call: Caller) -> None:
    await dead(worker, call)
    first = (await call.http.get(routes.dead_letters("default", SPOUT), params={"limit": 3})).json()
    rest = (await call.http.get(routes.dead_letters("default", SPOUT), params={"after": first["cursor"]})).json()
    letters = first["dead_letters"] + rest["dead_letters"]
    assert (len(first["dead_letters"]), sorted(int(it["root_id"], 16) for it in letters)) == (3, [1, 2, 3, 4, 5])
    assert {(it["attempts"], it["error"], it["outcome"]) for it in letters} == {(3, "answered 500", "acked")}
    end = (await call.http.get(routes.dead_letters("default", SPOUT), params={"after": rest["cursor"]})).json()
    assert end == {"dead_letters": [], "cursor": rest["cursor"], "more": False}


async def test_a_cursor_that_was_not_given_here_is_refused(worker: Worker, call: Caller) -> None:
    refused = await call.http.get(routes.dead_letters("default", SPOUT), params={"after": "x"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


async def test_dead_letters_are_replayed(worker: Worker, call: Caller) -> None:
    await dead(worker, call)
    assert (await call.http.post(routes.replay("default", SPOUT))).json() == {"replayed": 5}
    assert sorted(await call.outcomes()) == [(root, "acked") for root in range(1, 6)]
    assert (await call.http.post(routes.replay("default", SPOUT))).json() == {"replayed": 0}


async def test_dead_letters_are_discarded(worker: Worker, call: Caller) -> None:
    await dead(worker, call)
    discard = f"{routes.dead_letters('default', SPOUT)}/discard"
    assert [(await call.http.post(discard)).json() for _ in range(2)] == [{"discarded": 5}, {"discarded": 0}]
    assert (await call.spout())["dead_letters"] == 0


async def test_dead_letters_keep_a_topology_from_being_deleted(call: Caller, parts: Components) -> None:
    brief = Caller(call.http, "brief")
    await brief.put()
    await brief.put_spout(SPOUT, callback=WEBHOOK)
    await dead(Worker(parts, "one", topology="brief"), brief)
    refused = await call.http.delete(routes.topology("brief"))
    assert (refused.json()["code"], "5 dead letters" in refused.json()["detail"]) == ("topology_busy", True)
    await brief.http.post(f"{routes.dead_letters('brief', SPOUT)}/discard")
    assert (await call.http.delete(routes.topology("brief"))).status_code == 204
