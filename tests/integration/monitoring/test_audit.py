"""Whoever forces or discards something is in the audit trail: a log line, a metric and a list."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol.errors import StoreUnavailable
from acker_protocol.ids import format_id
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.monitoring.audit import Act, Entry
from acker_service.redis import keys
from acker_service.settings import Settings

from tests.integration.mailboxes.test_pages import Mailbox, packed
from tests.support.caller import Caller, ack, fail, init
from tests.support.exposition import scrape
from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.redis_side import at

pytestmark = pytest.mark.anyio

LEAST, MOST = 1_000, 1_125
"""Acts that are kept of all topologies together: beyond the most, those that are more than the least go."""
HOOK = {"kind": "webhook", "url": "https://orders.example/"}
ORDERS = "/v1/topologies/default/spouts/orders"


async def acts(call: Caller, **query: Any) -> list[dict[str, Any]]:
    answer = await call.http.get("/v1/audit", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["acts"])


def entry(count: int | None = None, topology: str = "default") -> Entry:
    return Entry(act=Act.COMPLETIONS_DISCARDED, topology=topology, count=count, key="operator", request_id="r")


@pytest.fixture
async def ended(call: Caller, parts: Components) -> Caller:
    """The spout task `orders` of the topology `default` has two unread completions, a dead letter and a callback."""
    await call.states(init(1, 9), fail(1), init(2, 9), ack(2, 9), init(3, 9))
    await call.put_spout("orders", callback=HOOK)
    topology = await parts.registry.get("default")
    await Mailbox(parts, topology, await parts.spouts.get(topology, "orders")).fill(0, [[packed(4)]], name="d")
    return call


@pytest.mark.parametrize(
    ("method", "address", "act", "count"),
    [
        ("POST", f"{ORDERS}/completions/discard", "completions_discarded", 2),
        ("POST", f"{ORDERS}/dead-letters/discard", "dead_letters_discarded", 1),
        ("POST", f"{ORDERS}/dead-letters/replay", "dead_letters_replayed", 1),
        ("POST", f"{ORDERS}/secret/rotate", "secret_rotated", None),
        ("DELETE", f"{ORDERS}?discard=true", "spout_task_deleted", 3),
    ],
)
async def test_an_act_on_a_spout_task_is_noted_with_its_key_and_request(
    ended: Caller, caplog: pytest.LogCaptureFixture, method: str, address: str, act: str, count: int | None
) -> None:
    caplog.set_level(logging.INFO)
    answer = await ended.http.request(method, address, headers={"X-Request-Id": "mine"})
    assert answer.is_success, answer.text
    noted, *_ = await acts(ended)
    at_ms = noted.pop("at_ms")
    assert noted == {"act": act, "topology": "default", "spout_task": "orders", "root_id": None, "count": count,
                     "key": "anybody", "request_id": "mine"}  # fmt: skip
    assert abs(at_ms - await _now_ms(ended)) < 60_000
    shown = "-" if count is None else count
    line = f"audit act={act} topology=default spout_task=orders root_id=- key=anybody count={shown}"
    assert [record.getMessage() for record in caplog.records if "audit act" in record.getMessage()] == [line]
    assert (await scrape(ended.http)).value("acker_audit_total", act=act) == 1


async def _now_ms(call: Caller) -> int:
    await call.states(init(77, 9))
    return int((await call.root(77))["deadline_at_ms"]) - 30_000


async def test_a_root_that_is_failed_by_hand_is_noted_once(ended: Caller) -> None:
    before = await acts(ended)
    assert (await ended.force_fail(3, reason="by hand"))["state"] == "failed"
    assert (await ended.force_fail(3))["state"] == "finished"
    [noted] = (await acts(ended))[: -len(before)]
    assert (noted["act"], noted["root_id"], noted["count"]) == ("root_failed", format_id(3), 1)


async def test_a_callback_is_noted_when_it_changes_and_not_when_it_is_put_again(call: Caller) -> None:
    for callback in (HOOK, HOOK, None, None):
        await call.put_spout("orders", callback=callback)
    assert [noted["act"] for noted in await acts(call)] == ["callback_changed"] * 2


async def test_a_callback_that_is_resumed_is_noted_if_it_was_off(ended: Caller, parts: Components) -> None:
    from acker_service.topologies.callback import CallbackStatus, deactivate  # noqa: PLC0415 - used only here

    await ended.http.post(f"{ORDERS}/resume")
    assert [noted["act"] for noted in await acts(ended)] == ["callback_changed"]
    await parts.callbacks.change(
        "default", "orders", lambda present, _: present and deactivate(present, CallbackStatus.PAUSED, "500")
    )
    await ended.http.post(f"{ORDERS}/resume")
    assert [noted["act"] for noted in await acts(ended)] == ["callback_resumed", "callback_changed"]


@pytest.mark.parametrize(
    ("query", "counts"),
    [("", []), ("?force=true", [1]), ("?force=true&discard=true", [2])],
    ids=["idle", "force", "at once"],
)
async def test_a_topology_is_noted_if_it_was_deleted_by_force(call: Caller, query: str, counts: list[int]) -> None:
    orders = Caller(call.http, "orders")
    await orders.put()
    if query:
        await orders.states(init(1, 9), fail(1), init(2, 9), ack(2, 9), init(3, 9))
    assert (await call.http.delete(f"/v1/topologies/orders{query}")).is_success
    assert [(noted["act"], noted["count"]) for noted in await acts(call)] == [
        ("topology_deleted", count) for count in counts
    ]


@pytest.mark.parametrize("act", ["completions/discard", "dead-letters/discard", "dead-letters/replay"])
async def test_what_ended_nothing_is_not_noted(call: Caller, caplog: pytest.LogCaptureFixture, act: str) -> None:
    """Whoever may only replay would push out the acts of others by it."""
    caplog.set_level(logging.INFO)
    await call.put_spout("orders")
    answer = await call.http.post(f"{ORDERS}/{act}")
    assert (answer.status_code, [*answer.json().values()]) == (200, [0])
    assert (await acts(call), "audit act" in caplog.text) == ([], False)
    noted = [row for row in (await scrape(call.http)).rows("acker_audit_total", "act").values() if row]
    assert noted == []


async def test_what_had_nothing_in_it_is_noted_where_it_is_gone(call: Caller) -> None:
    await call.put_spout("orders")
    await Caller(call.http, "orders").put()
    await call.http.delete(f"{ORDERS}?discard=true")
    await call.http.delete("/v1/topologies/orders?force=true&discard=true")
    assert [(noted["act"], noted["count"]) for noted in await acts(call)] == [
        ("topology_deleted", 0),
        ("spout_task_deleted", 0),
    ]


async def test_what_is_refused_is_not_noted(call: Caller) -> None:
    assert (await call.http.post(f"{ORDERS}/completions/discard")).status_code == 404
    assert (await call.http.delete("/v1/topologies/none?force=true")).status_code == 404
    assert await acts(call) == []


async def test_pages_are_read_newest_first(call: Caller, parts: Components) -> None:
    for count in range(5):
        await parts.audit.note(entry(count))
    read, cursor = [], None
    while True:
        page = (await call.http.get("/v1/audit", params={"limit": 2} | ({"after": cursor} if cursor else {}))).json()
        read.append([act["count"] for act in page["acts"]])
        cursor = page["cursor"]
        if cursor is None:
            break
    assert read == [[4, 3], [2, 1], [0]]


@pytest.fixture
def calls(parts: Components, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of Redis, as they are made."""
    made, execute = list[Any](), parts.redis.execute

    async def noted(call: Any) -> Any:
        made.append(call)
        return await execute(call)

    monkeypatch.setattr(parts.redis, "execute", noted)
    return made


@pytest.mark.parametrize("limit", [1, 2, 99, 100, 101, 250])
async def test_a_page_of_acts_among_those_of_others_is_whole_and_takes_few_reads(
    parts: Components, calls: list[Any], limit: int
) -> None:
    own = {0, 1, 120, 121, 122, 249}
    for number in range(250):
        await parts.audit.note(entry(number, "orders" if number in own else "payments"))
    calls.clear()
    read, before, pages = list[int](), None, 0
    while True:
        page = await parts.audit.page(before=before, limit=limit, shows=lambda topology: topology == "orders")
        read += [act["count"] for act in page.acts]
        assert len(page.acts) <= limit
        pages, before = pages + 1, page.last
        if before is None:
            break
    assert read == sorted(own, reverse=True)
    assert len(calls) <= pages + 250 // max(limit, 100)


async def test_a_page_of_a_topology_without_acts_takes_few_reads(parts: Components, calls: list[Any]) -> None:
    for number in range(250):
        await parts.audit.note(entry(number))
    calls.clear()
    page = await parts.audit.page(before=None, limit=1, shows=lambda topology: topology == "orders")
    assert (page.acts, page.last, len(calls)) == ([], None, 3)


async def kept(call: Caller) -> dict[str, list[int]]:
    """The counts of all acts that are shown, newest first, by topology."""
    found: dict[str, list[int]] = {}
    for act in await acts(call, limit=10_000):
        found.setdefault(act["topology"], []).append(act["count"])
    return found


async def test_the_newest_thousand_are_kept_for_thirty_days(call: Caller, parts: Components) -> None:
    for count in range(MOST):
        await parts.audit.note(entry(count))
    assert len((await kept(call))["default"]) == MOST
    await parts.audit.note(entry(MOST))
    assert await kept(call) == {"default": list(range(MOST, MOST - LEAST, -1))}
    assert 29.9 < await at(parts, "PTTL", keys.ACTS) / 86_400_000 <= 30


@pytest.mark.parametrize(
    ("noted", "left"),
    [
        ({"payments": 10, "orders": 2_000}, {"payments": 10}),
        ({"orders": 2_000, "payments": 10}, {"payments": 10}),
        ({"a": 1, "b": 300, "c": 2_000}, {"a": 1, "b": 300}),
        ({"orders": 600, "payments": 600}, {"orders": 500, "payments": 500}),
        ({"orders": 100, "payments": 700, "returns": 400}, {"orders": 100, "returns": 400}),
    ],
    ids=["the first", "the last", "the two smallest", "one of two alike", "the smaller ones"],
)
async def test_a_topology_pushes_out_no_acts_of_one_that_has_fewer(
    call: Caller, parts: Components, noted: dict[str, int], left: dict[str, int]
) -> None:
    for topology, count in noted.items():
        for number in range(count):
            await parts.audit.note(entry(number, topology))
    found = await kept(call)
    for topology, count in left.items():
        assert len(found[topology]) >= count
    for topology, numbers in found.items():
        newest = noted[topology] - 1
        assert numbers == list(range(newest, newest - len(numbers), -1)), "the newest of each"
    assert LEAST <= sum(map(len, found.values())) <= MOST


@pytest.mark.parametrize(
    ("noted", "left"),
    [
        ([("operator", 10), ("spout", 2_000)], {"operator": 10}),
        ([("spout", 2_000), ("operator", 10)], {"operator": 10}),
        ([("operator", 600), ("spout", 600)], {"operator": 500, "spout": 500}),
        ([("operator", 300), ("a", 1), ("spout", 2_000)], {"operator": 300, "a": 1}),
    ],
    ids=["the first", "the last", "one of two alike", "the two smallest"],
)
@pytest.mark.parametrize("others", [0, 40], ids=["alone", "beside another topology"])
async def test_a_key_pushes_out_no_acts_of_one_that_has_fewer_on_its_topology(
    call: Caller, parts: Components, noted: list[tuple[str, int]], left: dict[str, int], others: int
) -> None:
    for number in range(others):
        await parts.audit.note(entry(number, "payments"))
    for key, count in noted:
        for number in range(count):
            await parts.audit.note(replace(entry(number), key=key))
    found: dict[str, list[int]] = {}
    for act in await acts(call, limit=10_000):
        found.setdefault(f"{act['topology']} {act['key']}", []).append(act["count"])
    assert LEAST <= sum(map(len, found.values())) <= MOST
    assert len(found.pop("payments operator", [])) == others
    for key, count in left.items():
        assert len(found[f"default {key}"]) >= count - others / 2
    for key, numbers in found.items():
        newest = dict(noted)[key.removeprefix("default ")] - 1
        assert numbers == list(range(newest, newest - len(numbers), -1)), "the newest of each"


async def test_of_more_topologies_than_acts_the_newest_are_kept(call: Caller, parts: Components) -> None:
    for number in range(1_200):
        await parts.audit.note(entry(number, f"t{number}"))
    counts = [act["count"] for act in await acts(call, limit=10_000)]
    assert counts == list(range(1_199, 1_199 - len(counts), -1))
    assert LEAST <= len(counts) <= MOST


async def test_what_an_act_says_besides_is_no_topology(call: Caller, parts: Components) -> None:
    """Neither a spout task nor a key that is called as a topology has its share."""
    for number in range(1_200):
        noted = Entry(
            act=Act.COMPLETIONS_DISCARDED,
            topology="orders",
            spout_task="payments",
            count=number,
            key="payments",
            request_id='"topology": "payments"',
        )
        await parts.audit.note(noted)
        if number < 10:
            await parts.audit.note(entry(number, "payments"))
    assert (await kept(call))["payments"] == list(range(9, -1, -1))


async def test_an_act_older_than_thirty_days_is_not_shown(call: Caller, parts: Components) -> None:
    await parts.audit.note(entry(1))
    old = 1_000 * (await parts.redis.now_ms() - 31 * 86_400_000)
    await at(parts, "ZADD", keys.ACTS, old, f'{old} {{"topology": "default"}}')
    assert [act["count"] for act in await acts(call)] == [1]
    await parts.audit.note(entry(2))
    assert await at(parts, "ZCARD", keys.ACTS) == 2, "the next act removes it"


async def test_a_store_that_is_away_lets_the_act_succeed_and_is_logged(
    ended: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    execute = parts.redis.execute

    async def without_acts(call: Any) -> Any:
        if "acker_note_act_v1" in call.command:
            raise StoreUnavailable("no answer")
        return await execute(call)

    monkeypatch.setattr(parts.redis, "execute", without_acts)
    answer = await ended.http.post(f"{ORDERS}/completions/discard")
    assert (answer.status_code, answer.json()) == (200, {"discarded": 2})
    assert "GET /v1/audit lacks it: no answer" in caplog.text


@pytest.fixture
async def keyed(parts: Components, stopping: Any, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An application with a key of each scope for the topology `orders`."""
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES, topologies=["orders"]))
    transport = httpx.ASGITransport(app=make_app(parts, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_a_key_is_shown_the_acts_on_its_topologies_by_its_name(
    keyed: httpx.AsyncClient, call: Caller, parts: Components
) -> None:
    for topology in ("orders", "payments", "orders", "payments", "payments"):
        await parts.audit.note(entry(topology=topology))
    await Caller(call.http, "orders").put()
    await keyed.put("/v1/topologies/orders/spouts/orders", json={}, headers=bearer("spout"))
    await keyed.delete("/v1/topologies/orders/spouts/orders?discard=true", headers=bearer("admin"))
    page = (await keyed.get("/v1/audit?limit=3", headers=bearer("admin"))).json()
    assert [act["topology"] for act in page["acts"]] == ["orders"] * 3
    assert [act["key"] for act in page["acts"]] == ["admin", "operator", "operator"]


@pytest.mark.parametrize("after", ["x", "-1", "1" * 17, ""])
async def test_a_cursor_that_is_none_is_invalid(call: Caller, after: str) -> None:
    answer = await call.http.get("/v1/audit", params={"after": after})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
