"""A key that has a rate: what it is answered beyond, and that clients wait for it and lose nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_client import Acker
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.keys import digest_of
from acker_service.settings import Settings

from tests.support.exposition import read
from tests.support.keys import bearer
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.anyio

DEFAULT = "/v1/topologies/default"
ACK = {"root_id": "00000000000000a1", "edge_id": "00000000000000b1"}
BATCH = {"ops": [{"op": "ack", **ACK}] * 50}
HOURLY = 1 / 3_600
"""So seldom that no test sees a token come back."""


def write_keys(folder: Path, **rates: dict[str, float] | None) -> Path:
    """Write a file with a key of scope admin for each name, and with its rate."""
    path = folder / "keys.json"
    entries = [
        {"name": name, "sha256": digest_of(name).hex(), "scope": "admin", "topologies": "*"}
        | ({} if rate is None else {"rate": rate})
        for name, rate in rates.items()
    ]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"keys": entries}))
    new.replace(path)
    return path


@pytest.fixture
async def http(parts: Components, stopping: asyncio.Event, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The application; keys are called as what they lack."""
    path = write_keys(tmp_path, requests={"requests": HOURLY}, operations={"operations": HOURLY}, nothing=None)
    app = make_app(parts, Settings(keys_file=path), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker.localhost") as client:
        yield client


ASKED: dict[str, tuple[str, str, Any]] = {
    "a read": ("GET", DEFAULT, None),
    "an ack": ("POST", f"{DEFAULT}/ack", ACK),
    "a batch": ("POST", f"{DEFAULT}/batch", BATCH),
    "a long poll": ("GET", f"{DEFAULT}/spouts/orders/completions?wait_ms=1", None),
    "what is not allowed": ("GET", f"{DEFAULT}/roots/nonsense", None),
}


async def ask(http: httpx.AsyncClient, key: str, asked: str) -> httpx.Response:
    method, path, body = ASKED[asked]
    return await http.request(method, path, headers=bearer(key), json=body)


@pytest.mark.parametrize("asked", ASKED)
async def test_every_request_beyond_the_rate_is_answered_429_with_when_to_come_again(
    http: httpx.AsyncClient, asked: str
) -> None:
    assert (await ask(http, "requests", asked)).status_code != 429
    for again in ASKED:
        refused = await ask(http, "requests", again)
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["retryable"]) == (429, "overloaded", True)
        assert refused.headers["content-type"] == "application/problem+json"
        assert 3_590_000 < problem["retry_after_ms"] <= 3_600_000
        assert int(refused.headers["Retry-After"]) * 1_000 >= problem["retry_after_ms"]
        assert (await ask(http, "nothing", again)).status_code != 429, "another key is not held back"
    scraped = read((await http.get("/metrics")).text)
    assert scraped.value("acker_rate_limited_total", key="requests") == len(ASKED)
    assert scraped.value("acker_problems_total", code="overloaded") == len(ASKED)
    assert sum(scraped.rows("acker_overloaded_total", "reason").values()) == 0, "the acker has places enough"


async def test_probes_and_metrics_have_no_rate(http: httpx.AsyncClient) -> None:
    for _ in range(3):
        for path in ("/livez", "/metrics", "/openapi.json"):
            assert (await http.get(path, headers=bearer("requests"))).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{DEFAULT}/ack", 405),
        ("OPTIONS", f"{DEFAULT}/batch", 405),
        ("POST", DEFAULT, 405),
        ("PATCH", f"{DEFAULT}/spouts/orders", 405),
        ("GET", "/v1/nothing", 404),
        ("GET", f"{DEFAULT}/", 404),
        ("POST", f"{DEFAULT}/ack/", 404),
    ],
)
async def test_what_is_answered_without_a_look_at_the_key_takes_no_token(
    http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    for _ in range(3):
        assert (await http.request(method, path, headers=bearer("requests"))).status_code == status
    unknown = "/v1/topologies/unknown"
    assert (await http.get(unknown, headers=bearer("requests"))).status_code == 404
    assert (await http.get(unknown, headers=bearer("requests"))).status_code == 429, "this one has taken a token"


async def test_a_batch_is_as_many_operations_as_it_has_and_its_debt_stops_operations_alone(
    http: httpx.AsyncClient,
) -> None:
    assert (await ask(http, "operations", "a batch")).json()["accepted"] == 50
    for asked in ("an ack", "a batch"):
        refused = await ask(http, "operations", asked)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert refused.json()["retry_after_ms"] > 49 * 3_600_000
    assert (await ask(http, "operations", "a read")).status_code == 200


async def test_a_batch_that_cannot_be_read_costs_no_operations(http: httpx.AsyncClient) -> None:
    for _ in range(3):
        answer = await http.post(f"{DEFAULT}/batch", headers=bearer("operations"), json={"ops": [{"op": "no"}]})
        assert answer.status_code == 422
    assert (await ask(http, "operations", "an ack")).status_code == 200


async def test_a_refused_operation_was_not_applied(http: httpx.AsyncClient) -> None:
    init = {"root_id": "00000000000000c1", "spout_task": "orders", "edges": ["00000000000000d1"]}
    assert (await ask(http, "operations", "an ack")).status_code == 200
    refused = await http.post(f"{DEFAULT}/init", headers=bearer("operations"), json=init)
    assert refused.status_code == 429
    assert (await http.get(f"{DEFAULT}/roots/00000000000000c1", headers=bearer("nothing"))).status_code == 404


@pytest.fixture(scope="module", params=[(), ("--processes", "2")], ids=["one process", "two processes"])
def acker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> Iterator[AckerProcess]:
    """An acker whose key `slow` may send 40 operations a second, and `seldom` 4 requests."""
    folder = tmp_path_factory.mktemp("acker")
    keys = write_keys(folder, slow={"operations": 40}, seldom={"requests": 4}, operator=None)
    with acker_serve(folder, "--redis-url", valkey_url, "--keys-file", str(keys), *request.param) as running:
        yield running


def limited(acker: AckerProcess, key: str) -> float:
    return read(acker.http.get("/metrics").text).value("acker_rate_limited_total", key=key) or 0.0


@pytest.mark.parametrize("key", ["slow", "seldom"])
def test_a_client_waits_for_its_rate_and_loses_nothing(acker: AckerProcess, key: str) -> None:
    messages = {f"{key}-{number}" for number in range(60 if key == "slow" else 6)}
    with Acker(acker.url, api_key=key, linger=0.001, batch_size=20, emit_timeout=60) as client:
        spout = client.shared_spout(f"of-{key}")
        for message in sorted(messages):
            with spout.emit(message_id=message) as root:
                headers = root.headers()
            with client.receive(headers, component="bolt"):
                pass
        client.flush()
        ended = dict[str | None, str]()
        for completion in spout.completions(stop=lambda: len(ended) == len(messages), poll_timeout=5):
            ended[completion.message_id] = completion.outcome
        assert (set(ended), set(ended.values())) == (messages, {"acked"})
        assert client.stats().lost == 0
    assert limited(acker, key) > 0, "it was held back meanwhile"


def test_a_rate_that_changes_in_the_file_is_in_force_without_a_restart(tmp_path: Path, valkey_url: str) -> None:
    keys = write_keys(tmp_path, one=None)
    with acker_serve(tmp_path, "--redis-url", valkey_url, "--keys-file", str(keys)) as acker:

        def is_limited() -> bool:
            return {acker.http.get(DEFAULT, headers=bearer("one")).status_code for _ in range(5)} >= {429}

        assert not is_limited()
        write_keys(tmp_path, one={"requests": HOURLY})
        eventually_true(is_limited)
        write_keys(tmp_path, one=None)
        eventually_true(lambda: not is_limited())
