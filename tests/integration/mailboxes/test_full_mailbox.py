"""A mailbox that is full refuses its spout task's inits, and loses nothing."""

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components, TopologyLimits
from acker_service.settings import Settings

pytestmark = pytest.mark.anyio

T = "/v1/topologies/default"


@pytest.fixture
async def narrow(parts: Components, stopping: object, valkey_url: str) -> httpx.AsyncClient:
    """A replica that takes three unread completions a spout task."""
    replica = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(mailbox_max=3))
    app = make_app(replica, Settings(), stopping)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://narrow.localhost") as client:
        client.store = replica  # type: ignore[attr-defined]
        yield client
    await replica.close()


async def init(client: httpx.AsyncClient, root: int, spout: str = "full", edges: list[str] | None = None) -> str:
    operation = {"root_id": f"{root:016x}", "spout_task": spout, "edges": edges or []}
    answer = (await client.post(f"{T}/init", json=operation)).json()
    return str(answer.get("state", answer.get("code")))


async def test_inits_are_refused_until_completions_were_released(narrow: httpx.AsyncClient) -> None:
    look = narrow.store.backpressure.refresh  # type: ignore[attr-defined]
    assert await init(narrow, 9, edges=["00000000000000b1"]) == "pending"
    assert [await init(narrow, root) for root in (1, 2, 3)] == ["acked"] * 3
    await look()
    assert await init(narrow, 4) == "mailbox_full"
    assert await init(narrow, 5, edges=["00000000000000b1"]) == "mailbox_full"
    assert await init(narrow, 4, spout="other") == "acked"
    assert await init(narrow, 9, edges=["00000000000000b1"]) == "duplicate"
    ack = {"root_id": f"{9:016x}", "edge_id": "00000000000000b1"}
    assert (await narrow.post(f"{T}/ack", json=ack)).json()["state"] == "acked"
    told = (await narrow.get(f"{T}/spouts/full/completions")).json()
    assert len(told["completions"]) == 4
    await narrow.post(f"{T}/spouts/full/completions/release", json={"cursor": told["cursor"]})
    assert await init(narrow, 5, edges=["00000000000000b1"]) == "pending"


async def test_a_full_mailbox_is_answered_with_429_and_when_to_come_again(narrow: httpx.AsyncClient) -> None:
    for root in (1, 2, 3):
        await init(narrow, root)
    await narrow.store.backpressure.refresh()  # type: ignore[attr-defined]
    operation = {"root_id": f"{4:016x}", "spout_task": "full", "edges": []}
    refused = await narrow.post(f"{T}/init", json=operation)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["retryable"]
    batch = await narrow.post(f"{T}/batch?results=exceptions", json={"ops": [{"op": "init"} | operation]})
    assert batch.json() == {"accepted": 0, "exceptions": [{"index": 0, "state": "mailbox_full"}]}


async def fill(client: httpx.AsyncClient) -> None:
    """Leave one root pending, and three completions unread."""
    assert await init(client, 9, edges=["00000000000000b1"]) == "pending"
    assert [await init(client, root) for root in (1, 2, 3)] == ["acked"] * 3
    await client.store.backpressure.refresh()  # type: ignore[attr-defined]


async def words(client: httpx.AsyncClient, *ops: dict[str, object], key: str = "k") -> list[str]:
    answer = await client.post(f"{T}/batch", json={"ops": ops}, headers={"Idempotency-Key": key})
    return list(answer.json()["results"])


ACK = {"op": "ack", "root_id": f"{9:016x}", "edge_id": "00000000000000b1"}
INIT = {"op": "init", "root_id": f"{5:016x}", "spout_task": "full", "edges": ["00000000000000b1"]}


@pytest.mark.parametrize(("op", "state"), [("ack", "acked"), ("fail", "failed")])
async def test_a_full_mailbox_stays_full_though_a_root_ends_in_the_same_request(
    narrow: httpx.AsyncClient, op: str, state: str
) -> None:
    await fill(narrow)
    end = {"op": "fail", "root_id": ACK["root_id"]} if op == "fail" else ACK
    assert await words(narrow, end, INIT) == [state, "mailbox_full"]


async def test_a_repeat_tells_again_that_an_init_found_no_place(narrow: httpx.AsyncClient) -> None:
    await fill(narrow)
    await words(narrow, ACK, INIT)
    assert await words(narrow, ACK, INIT) == ["finished", "max_spout_pending"]
