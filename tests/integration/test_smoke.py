import httpx
import pytest

pytestmark = pytest.mark.anyio

DEFAULT = "/v1/topologies/default"


async def test_a_root_is_acked_at_its_last_ack(api: httpx.AsyncClient) -> None:
    init = {"root_id": "00000000000000a1", "spout_task": "orders", "edges": ["00000000000000b1", "00000000000000b2"]}
    assert (await api.post(f"{DEFAULT}/init", json=init)).json()["state"] == "pending"
    states = []
    for edge in init["edges"]:
        answer = await api.post(f"{DEFAULT}/ack", json={"root_id": init["root_id"], "edge_id": edge})
        states.append(answer.json()["state"])
    assert states == ["pending", "acked"]
    told = (await api.get(f"{DEFAULT}/spouts/orders/completions")).json()["completions"]
    assert [(done["root_id"], done["outcome"]) for done in told] == [(init["root_id"], "acked")]
