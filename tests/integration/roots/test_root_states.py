"""Reading the states of many roots in one request."""

from typing import Any

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.ids import format_id
from acker_service.components import Components

from tests.support.caller import Caller, Document, ack, fail, init
from tests.support.dump import dump
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

E = 0xE1
PENDING, EARLY, ACKED, FAILED, OVERDUE, UNKNOWN = range(1, 7)


async def asked(call: Caller, **document: Any) -> httpx.Response:
    return await call.http.post(routes.root_states(call.topology), json=document)


async def states(call: Caller, *roots: int) -> list[Document]:
    answer = await asked(call, root_ids=[format_id(root) for root in roots])
    assert answer.status_code == 200, answer.text
    return list(answer.json()["roots"])


def shown(root: int, state: str, outcome: str | None = None) -> Document:
    document = {"root_id": format_id(root), "state": state}
    return document if outcome is None else document | {"outcome": outcome}


async def begin_all(call: Caller, parts: Components) -> None:
    """Bring a root into each state."""
    overdue = init(OVERDUE, E, message_timeout_ms=100)
    await call.states(init(PENDING, E), ack(EARLY, E), init(ACKED), init(FAILED, E), fail(FAILED), overdue)
    topology = await parts.registry.get("default")
    await eventually(lambda: parts.expiry.expire(topology))


async def test_each_root_has_its_state_in_the_order_of_the_request(call: Caller, parts: Components) -> None:
    await begin_all(call, parts)
    assert await states(call, UNKNOWN, PENDING, OVERDUE, EARLY, ACKED, FAILED, PENDING) == [
        shown(UNKNOWN, "unknown"),
        shown(PENDING, "pending"),
        shown(OVERDUE, "finished", "timed_out"),
        shown(EARLY, "early"),
        shown(ACKED, "finished", "acked"),
        shown(FAILED, "finished", "failed"),
        shown(PENDING, "pending"),
    ]


async def test_reading_states_changes_nothing(call: Caller, parts: Components) -> None:
    await begin_all(call, parts)
    before = await dump(parts)
    await states(call, *range(1, 1_001))
    assert await dump(parts) == before


async def test_a_shard_is_asked_once_and_only_where_it_has_one_of_the_roots(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Caller(call.http, "wide")
    await call.put(ackers=8)
    layout = (await parts.registry.get("wide")).layout
    roots = [root for root in range(1, 200) if layout.shard_of(root) in (1, 5)]
    asked_calls: list[str] = []
    execute_each = parts.redis.execute_each

    async def counted(calls):
        asked_calls.extend(call.name for call in calls)
        return await execute_each(calls)

    monkeypatch.setattr(parts.redis, "execute_each", counted)
    assert await states(call, *roots) == [shown(root, "unknown") for root in roots]
    assert asked_calls.count("acker_read_states_v1") == 2


async def test_no_ids_have_no_states(call: Caller) -> None:
    assert await states(call) == []


async def test_an_untracked_topology_remembers_outcomes(call: Caller) -> None:
    call = Caller(call.http, "untracked")
    await call.put(ackers=0)
    await call.post(init(1, E))
    assert await states(call, 1, 2) == [shown(1, "finished", "acked"), shown(2, "unknown")]


async def test_an_outcome_is_forgotten_after_the_retention(call: Caller, parts: Components) -> None:
    await call.put(retention_ms=1_000)
    await call.post(init(1))
    assert await states(call, 1) == [shown(1, "finished", "acked")]

    async def is_forgotten() -> bool:
        return await states(call, 1) == [shown(1, "unknown")]

    await eventually(is_forgotten)


async def test_the_address_is_no_root_so_that_nothing_but_post_is_allowed_there(call: Caller) -> None:
    answer = await call.http.get(routes.root_states(call.topology))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


GOOD = format_id(1)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "root_ids is missing"),
        ({"root_ids": None}, "root_ids is missing"),
        ({"root_ids": GOOD}, "root_ids must be a list of at most 1000 root ids"),
        ({"root_ids": [GOOD] * 1_001}, "root_ids must be a list of at most 1000 root ids"),
        ({"root_ids": [GOOD, "A" * 16]}, "root_ids must hold root ids: the one at index 1 must be a string of 16"),
        ({"root_ids": ["a1"]}, "root_ids must hold root ids: the one at index 0 must be a string of 16"),
        ({"root_ids": ["0" * 16]}, "root_ids must hold root ids: the one at index 0 must not be zero"),
        ({"root_ids": [1]}, "root_ids must hold root ids: the one at index 0 must be a string"),
        ({"root_ids": [GOOD], "wait_ms": 5}, "'wait_ms' is not a field here"),
    ],
)
async def test_what_is_no_list_of_root_ids_is_refused_with_the_field(
    call: Caller, document: Document, says: str
) -> None:
    answer = await asked(call, **document)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.json()["detail"].startswith(says)
