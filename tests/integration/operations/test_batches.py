"""A batch is applied whole, also where one shard of several has to be asked again, from either form of its body."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from acker_protocol.operations import Ack, Init, Operation
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.components import Components
from acker_service.http.parameters import JSON
from acker_service.redis.stamp import Stamp

from tests.support.caller import Caller
from tests.support.redis_side import at
from tests.support.trips import counted

pytestmark = pytest.mark.anyio

FORMS = {JSON: encode_batch, CONTENT_TYPE: encode_packed}
ROOTS = range(1, 41)
EDGE, OTHER = 0xE1, 0xE2


def inits(roots: Sequence[int] = ROOTS) -> list[Operation]:
    return [Init(root_id=root, spout_task="orders", ack_val=EDGE ^ OTHER, outstanding=2) for root in roots]


def acks(edge: int, roots: Sequence[int] = ROOTS) -> list[Operation]:
    """Return acks of one edge, or of both."""
    edges = 2 if edge == EDGE ^ OTHER else 1
    return [Ack(root_id=root, ack_val=edge, outstanding=-edges) for root in roots]


async def post(
    api: httpx.AsyncClient, form: str, messages: list[Operation], *, key: str = "", query: str = "", to: str = "default"
) -> httpx.Response:
    headers = {"content-type": form} | ({"idempotency-key": key} if key else {})
    return await api.post(f"/v1/topologies/{to}/batch{query}", content=FORMS[form](messages), headers=headers)


async def states(api: httpx.AsyncClient, form: str, messages: list[Operation], **options: Any) -> list[str]:
    answer = await post(api, form, messages, **options)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def newer(stamp: Stamp) -> str:
    return f"{stamp.text[:16]}{int(stamp.text[16:]) + 1:010d}"


@pytest.fixture(params=FORMS, ids=["JSON", "packed"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_batch_says_how_many_operations_were_accepted(api: httpx.AsyncClient, form: str) -> None:
    assert await states(api, form, inits()) == ["pending"] * len(ROOTS)
    with_component: Operation = Ack(root_id=1, ack_val=EDGE, outstanding=-1, component="count")
    assert await states(api, form, [with_component, *acks(EDGE, ROOTS[1:])]) == ["pending"] * len(ROOTS)
    answer = await post(api, form, acks(OTHER), query="?results=exceptions")
    assert answer.json() == {"accepted": len(ROOTS), "exceptions": []}


async def test_what_is_no_batch_is_refused(api: httpx.AsyncClient, form: str) -> None:
    path, headers = "/v1/topologies/default/batch", {"content-type": form}
    answer = await api.post(path, content=b"no batch", headers=headers)
    assert answer.status_code == 422
    answer = await api.post(path, content=FORMS[form](acks(EDGE)), headers={"content-type": f"{form}; charset=utf-8"})
    assert answer.status_code == 200


async def test_a_batch_ends_its_roots(api: httpx.AsyncClient, call: Caller, form: str) -> None:
    assert await states(api, form, inits()) == ["pending"] * len(ROOTS)
    assert await states(api, form, acks(EDGE)[::-1]) == ["pending"] * len(ROOTS)
    assert (await call.show())["pending"] == len(ROOTS)
    assert await states(api, form, acks(OTHER)) == ["acked"] * len(ROOTS)
    assert (await call.show())["pending"] == 0


async def test_inits_and_acks_in_one_batch_get_their_own_states(api: httpx.AsyncClient, form: str) -> None:
    await states(api, form, inits(ROOTS[:20]))
    mixed = [*acks(EDGE ^ OTHER, ROOTS[:10]), *inits(ROOTS[20:]), *acks(EDGE, ROOTS[10:20])]
    assert await states(api, form, mixed) == ["acked"] * 10 + ["pending"] * 30
    document = (await post(api, form, mixed, query="?results=exceptions")).json()
    assert document == {"accepted": 40, "exceptions": []}


async def test_a_shard_with_another_stamp_is_asked_again_and_no_other(
    api: httpx.AsyncClient, call: Caller, parts: Components, form: str
) -> None:
    """The parts of the other shards have been applied by then: an ack that came twice would XOR twice."""
    await states(api, form, inits())
    topology = await parts.registry.get("default")
    await at(parts, "SET", topology.shards[2], newer(topology.stamp))
    with counted(parts) as trips:
        assert await states(api, form, acks(EDGE)) == ["pending"] * len(ROOTS)
    assert sum(map(len, trips.of("acker_apply"))) == len(topology.shards) + 1
    assert await states(api, form, acks(OTHER)) == ["acked"] * len(ROOTS)
    assert (await call.show())["pending"] == 0


async def test_all_shards_may_have_another_stamp(api: httpx.AsyncClient, parts: Components, form: str) -> None:
    topology = await parts.registry.get("default")
    for shard in topology.shards:
        await at(parts, "SET", shard, newer(topology.stamp))
    assert await states(api, form, inits()) == ["pending"] * len(ROOTS)
    assert await states(api, form, acks(EDGE ^ OTHER)) == ["acked"] * len(ROOTS)


async def test_a_batch_that_is_sent_twice_is_applied_once(api: httpx.AsyncClient, call: Caller, form: str) -> None:
    await states(api, form, inits())
    first = await post(api, form, acks(EDGE), key="k")
    again = await post(api, form, acks(EDGE), key="k")
    assert (first.status_code, again.status_code) == (200, 200)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await states(api, form, acks(OTHER), key="l") == ["acked"] * len(ROOTS)
    assert (await call.show())["pending"] == 0


async def test_a_batch_that_is_sent_twice_at_once_is_applied_once(api: httpx.AsyncClient, form: str) -> None:
    await states(api, form, inits())
    both = await asyncio.gather(*(post(api, form, acks(EDGE), key="k") for _ in range(2)))
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in both) == ["", "true"]
    assert await states(api, form, acks(OTHER)) == ["acked"] * len(ROOTS)


async def test_a_cap_refuses_inits_in_the_order_of_the_batch(api: httpx.AsyncClient, form: str) -> None:
    await Caller(api, "one").put(max_spout_pending=10, ackers=1)
    assert await states(api, form, inits(), to="one") == ["pending"] * 10 + ["max_spout_pending"] * 30
    more = [*inits(ROOTS[20:24]), *acks(EDGE ^ OTHER, ROOTS[:3])]
    answer = await post(api, form, more, query="?results=exceptions", to="one")
    assert answer.json() == {"accepted": 6, "exceptions": [{"index": 3, "state": "max_spout_pending"}]}


async def test_a_batch_waits_for_no_spout_task_that_is_not_registered(
    api: httpx.AsyncClient, call: Caller, form: str
) -> None:
    init: Operation = Init(root_id=7, spout_task="another", ack_val=EDGE)
    assert await states(api, form, [*inits(ROOTS[:3]), init]) == ["pending"] * 4
    assert (await call.spout("another"))["pending"] == 1


async def test_a_topology_that_is_not_there_is_named(api: httpx.AsyncClient, form: str) -> None:
    headers = {"content-type": form}
    answer = await api.post("/v1/topologies/nowhere/batch", content=FORMS[form](inits()), headers=headers)
    assert answer.status_code == 404
