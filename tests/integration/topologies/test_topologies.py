"""Topologies: how they are made, changed and shown."""

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.components import Components

from tests.support.caller import Caller, ack, fail, init
from tests.support.redis_side import flush

pytestmark = pytest.mark.anyio

DEFAULTS = {
    "ackers": 4,
    "message_timeout_ms": 30_000,
    "progress_timeout_ms": None,
    "max_spout_pending": None,
    "dedupe_window_ms": 0,
    "dedupe_automatic": False,
    "retention_ms": 60_000,
    "root_details": True,
    "trace": 0,
    "end_on": "first_fail",
    "grace_ms": 0,
}
OTHERS = {
    "ackers": 2,
    "message_timeout_ms": 5_000,
    "progress_timeout_ms": 1_000,
    "max_spout_pending": 10,
    "dedupe_window_ms": 10_000,
    "dedupe_automatic": False,
    "retention_ms": 2_000,
    "root_details": False,
    "trace": 0.001,
    "end_on": "all_ended",
    "grace_ms": 3_000,
}
GIVEN = {name: value for name, value in OTHERS.items() if name != "dedupe_automatic"}
NEW = "/v1/topologies/new"


def configuration(shown: dict[str, object]) -> dict[str, object]:
    return {name: shown[name] for name in DEFAULTS}


async def test_a_topology_is_made_with_201_and_defaults(api: httpx.AsyncClient) -> None:
    answer = await api.put(NEW, json={})
    assert answer.status_code == 201
    nothing = {"acked": 0, "failed": 0, "timed_out": 0, "dropped": 0, "unbalanced": 0}
    counts = {"pending": 0, "unread": 0, "early_bytes": 0, "remembered_bytes": 0, "counts": nothing}
    assert answer.json() == {"topology": "new", "idempotency_window_ms": 600_000} | DEFAULTS | counts


async def test_a_topology_is_changed_with_200(api: httpx.AsyncClient) -> None:
    assert [(await api.put(NEW, json={})).status_code for _ in range(2)] == [201, 200]


async def test_a_put_without_a_body_is_an_empty_one(api: httpx.AsyncClient) -> None:
    assert [(await api.put(NEW)).status_code for _ in range(2)] == [201, 200]
    assert configuration((await api.get(NEW)).json()) == DEFAULTS


async def test_every_field_can_be_given(api: httpx.AsyncClient) -> None:
    assert configuration((await api.put(NEW, json=GIVEN)).json()) == OTHERS
    assert configuration((await api.get(NEW)).json()) == OTHERS


async def test_fields_left_out_keep_their_value(api: httpx.AsyncClient) -> None:
    await api.put(NEW, json=GIVEN)
    assert configuration((await api.put(NEW, json={"retention_ms": 3_000})).json()) == OTHERS | {"retention_ms": 3_000}


@pytest.mark.parametrize("name", sorted(GIVEN.keys() - {"ackers", "message_timeout_ms", "dedupe_window_ms"}))
async def test_null_is_the_default(api: httpx.AsyncClient, name: str) -> None:
    await api.put(NEW, json=GIVEN)
    assert configuration((await api.put(NEW, json={name: None})).json()) == OTHERS | {name: DEFAULTS[name]}


def window(answer: httpx.Response) -> tuple[int, bool]:
    assert answer.is_success, answer.text
    return answer.json()["dedupe_window_ms"], answer.json()["dedupe_automatic"]


async def test_a_dedupe_window_of_null_follows_the_message_timeout(api: httpx.AsyncClient) -> None:
    assert window(await api.put(NEW, json={"dedupe_window_ms": None})) == (30_000, True)
    assert window(await api.put(NEW, json={"message_timeout_ms": 90_000})) == (90_000, True)
    assert window(await api.get(NEW)) == (90_000, True)
    assert window(await api.put(NEW, json={"dedupe_window_ms": 0})) == (0, False)
    assert window(await api.put(NEW, json={"message_timeout_ms": 5_000})) == (0, False)


async def test_a_window_follows_a_shorter_message_timeout_too_while_edges_are_remembered(call: Caller) -> None:
    await call.put(dedupe_window_ms=None)
    await call.states(init(1, 7, 8), ack(1, 7))
    await call.put(message_timeout_ms=20_000)
    await call.put(message_timeout_ms=40_000)
    assert await call.states(ack(1, 8), init(2, 7, 8), ack(2, 7), ack(2, 7)) == [
        "acked", "pending", "pending", "duplicate"
    ]  # fmt: skip


@pytest.mark.parametrize("cap", [None, 5])
async def test_under_an_automatic_window_an_init_may_last_longer_than_it(call: Caller, cap: int | None) -> None:
    """Alone, with a cap and without, in a batch, and packed."""
    await call.put(dedupe_window_ms=None, message_timeout_ms=60_000, max_spout_pending=cap)
    longer = {"message_timeout_ms": 3_600_000}
    assert [await call.state(init(1, 7, 8, **longer)), await call.state(ack(1, 7))] == ["pending", "pending"]
    assert await call.states(init(2, 7, 8, **longer), ack(2, 7), ack(2, 7)) == ["pending", "pending", "duplicate"]
    ops = decode_batch({"ops": [init(3, 7, 8, **longer), ack(3, 7)]}, max_operations=2)
    answer = await call.http.post(
        routes.operation(call.topology, "batch"), content=encode_packed(ops), headers={"Content-Type": CONTENT_TYPE}
    )
    assert answer.json()["results"] == ["pending", "pending"]
    assert await call.state(ack(1, 7)) == "duplicate"


async def test_a_progress_timeout_of_zero_is_none(api: httpx.AsyncClient) -> None:
    shown = (await api.put(NEW, json={"progress_timeout_ms": 0})).json()
    assert not shown["progress_timeout_ms"]


async def test_the_same_ackers_may_be_said_again(api: httpx.AsyncClient) -> None:
    await api.put(NEW, json={"ackers": 2})
    assert (await api.put(NEW, json={"ackers": 2})).status_code == 200
    assert (await api.put(NEW, json={"ackers": None})).json()["code"] == "ackers_fixed"
    await api.put("/v1/topologies/four", json={})
    assert (await api.put("/v1/topologies/four", json={"ackers": None})).status_code == 200


async def test_the_default_topology_always_exists_and_can_be_changed(api: httpx.AsyncClient) -> None:
    shown = configuration((await api.get("/v1/topologies/default")).json())
    assert shown == DEFAULTS | {"dedupe_window_ms": 30_000, "dedupe_automatic": True}
    assert (await api.put("/v1/topologies/default", json={"message_timeout_ms": 5_000})).status_code == 200
    assert (await api.get("/v1/topologies/default")).json()["message_timeout_ms"] == 5_000


async def test_all_topologies_are_listed_by_name(api: httpx.AsyncClient) -> None:
    for name in ("b", "a.b-c_D", "9", "n" * 128):
        assert (await api.put(f"/v1/topologies/{name}")).status_code == 201
    listed = (await api.get("/v1/topologies")).json()["topologies"]
    assert [shown["topology"] for shown in listed] == ["9", "a.b-c_D", "b", "default", "n" * 128]
    assert listed[1] == (await api.get("/v1/topologies/a.b-c_D")).json()


async def test_a_topology_is_shown_with_its_counts(call: Caller) -> None:
    await call.states(init(1, 9), init(2, 9, spout_task="others"), init(3, 9), ack(3, 9), init(4, 9), fail(4))
    shown = await call.show()
    assert (shown["pending"], shown["unread"]) == (2, 2)
    assert (shown["counts"]["acked"], shown["counts"]["failed"]) == (1, 1)


async def test_topologies_know_nothing_of_each_other(call: Caller) -> None:
    other = Caller(call.http, "other")
    await other.put()
    await call.post(init(1, 9))
    assert await other.state(ack(1, 9)) == "early"
    assert (await other.root(1))["state"] == "early"
    assert await call.state(ack(1, 9)) == "acked"
    assert (await other.spout())["code"] == "unknown_spout"


@pytest.mark.parametrize("ackers", [0, 1, 128])
async def test_a_topology_may_have_from_none_to_128_ackers(call: Caller, ackers: int) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=ackers)
    roots = range(1, 300)
    await wide.states(*[init(root, 9) for root in roots], *[ack(root, 9) for root in roots])
    assert sorted(await wide.outcomes()) == [(root, "acked") for root in roots]


async def test_a_change_of_configuration_keeps_what_is_pending_and_unread(call: Caller) -> None:
    await call.states(init(1, 9), init(2))
    await call.put(message_timeout_ms=60_000, dedupe_window_ms=60_000)
    assert await call.state(ack(1, 9)) == "acked"
    assert sorted(await call.outcomes()) == [(1, "acked"), (2, "acked")]


async def test_a_lower_cap_refuses_new_inits_and_leaves_the_pending_alone(call: Caller) -> None:
    await call.states(*[init(root, 9) for root in (1, 2, 3)])
    await call.put(max_spout_pending=2)
    assert await call.states(init(4, 9), ack(1, 9), init(5, 9)) == ["max_spout_pending", "acked", "max_spout_pending"]
    assert await call.states(ack(2, 9), init(4, 9), init(5, 9)) == ["acked", "pending", "max_spout_pending"]


async def test_the_default_topology_gets_the_buckets_of_the_settings(valkey_url: str, parts: Components) -> None:
    await flush(parts)
    replica = Components(valkey_url, window_ms=600_000, buckets=16)
    await replica.open()
    assert (await parts.registry.refresh("default")).config.buckets == 16
    await replica.close()
