"""Web pages of other origins, and names that are not the acker's: refused at every address, by every process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.load_shedding import UNLIMITED_PATHS
from acker_service.settings import Settings

from tests.integration.http.test_access import ENDPOINTS, OPEN, address
from tests.support.keys import bearer, keys_file
from tests.support.raw_http import RawHttp
from tests.support.servers import AckerProcess, acker_serve

pytestmark = pytest.mark.anyio

OPERATION = "/v1/topologies/default/ack"
ACK = {"root_id": "00000000000000a1", "edge_id": "00000000000000b1"}
CROSS_SITE = {"Sec-Fetch-Site": "cross-site"}
FOREIGN = {"Origin": "https://evil.example", **CROSS_SITE}
REBOUND = {"Host": "evil.example:8700"}
EVERY = sorted(
    {(method, path) for method, path, _ in ENDPOINTS} | {(m, path) for path in OPEN for m in ("GET", "HEAD")}
)


def refused(answer: httpx.Response, setting: str) -> bool:
    """Whether a request was refused with a problem that names a setting; the answer to HEAD has no body."""
    assert answer.status_code == 403, answer.text
    if answer.request.method == "HEAD":
        return True
    problem = answer.json()
    return (problem["code"], problem["retryable"]) == ("forbidden_origin", False) and setting in problem["detail"]


def client_of(settings: Settings) -> httpx.AsyncClient:
    """Speak to an application without a store by plain ASGI."""
    app = make_app(Components("redis://127.0.0.1:1", window_ms=600_000), settings, asyncio.Event())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8700")


@pytest.fixture(scope="module")
def storeless() -> httpx.AsyncClient:
    return client_of(Settings())


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_no_address_is_open_to_pages_of_other_origins(
    storeless: httpx.AsyncClient, method: str, path: str
) -> None:
    for headers in (FOREIGN, CROSS_SITE, {"Origin": "null"}):
        assert refused(await storeless.request(method, address(path, "orders"), headers=headers), "ALLOWED_ORIGINS")


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_no_address_but_probes_and_metrics_is_answered_under_a_name_of_others(
    storeless: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await storeless.request(method, address(path, "orders"), headers=REBOUND)
    assert answer.status_code != 403 if path in UNLIMITED_PATHS else refused(answer, "ACKER_ALLOWED_HOSTS")


async def test_a_method_that_a_browser_asks_about_first_is_refused(storeless: httpx.AsyncClient) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type", **FOREIGN}
    for path in (OPERATION, "/v1/topologies", "/nowhere"):
        answer = await storeless.options(path, headers=asked)
        assert refused(answer, "ACKER_ALLOWED_ORIGINS")
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_where_keys_are_required_the_key_alone_decides(tmp_path: Path) -> None:
    async with client_of(Settings(keys_file=keys_file(tmp_path, "admin"))) as client:
        for headers in (FOREIGN, REBOUND):
            answers = [await client.get(path, headers=headers) for path in ("/livez", "/ui/", "/openapi.json")]
            assert [answer.status_code for answer in answers] == [200] * 3
            assert (await client.post(OPERATION, json=ACK, headers=headers)).status_code == 401
            assert (await client.post(OPERATION, json=ACK, headers=headers | bearer("admin"))).status_code == 503


async def test_names_and_origins_that_are_allowed_are_answered() -> None:
    allowed: dict[str, Any] = {"allowed_hosts": "evil.example", "allowed_origins": "https://evil.example"}
    async with client_of(Settings(**allowed)) as client:
        for headers in (FOREIGN, REBOUND, FOREIGN | REBOUND):
            assert (await client.get("/openapi.json", headers=headers)).status_code == 200
        assert refused(await client.get("/openapi.json", headers=CROSS_SITE), "ACKER_ALLOWED_ORIGINS")


@pytest.fixture(scope="module", params=["1", "2"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """An acker of one process, and one of several behind one address."""
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data"), "--processes", request.param) as acker:
        yield acker


def test_every_process_refuses_and_nothing_is_done(served: AckerProcess) -> None:
    before = served.http.get("/v1/topologies/default").json()["counts"]
    for _ in range(8):  # each on a connection of its own, which another process may have
        assert refused(served.http.post(OPERATION, json=ACK, headers=FOREIGN), "ACKER_ALLOWED_ORIGINS")
        assert refused(served.http.post(OPERATION, json=ACK, headers=REBOUND), "ACKER_ALLOWED_HOSTS")
        assert refused(served.http.put("/v1/topologies/made", headers=FOREIGN), "ACKER_ALLOWED_ORIGINS")
        assert served.http.get("/readyz", headers=REBOUND).status_code == 200
    assert served.http.get(f"/v1/topologies/default/roots/{ACK['root_id']}").status_code == 404
    assert served.http.get("/v1/topologies/made").status_code == 404
    assert served.http.get("/v1/topologies/default").json()["counts"] == before
    counted = served.http.get("/metrics").text
    assert 'acker_problems_total{code="forbidden_origin"} 24.0' in counted
    assert f'acker_requests_total{{method="POST",route="{OPERATION.replace("default", "{topology}")}"' in counted


def test_the_connection_of_a_refused_request_goes_on(served: AckerProcess) -> None:
    with RawHttp(served.url) as raw:
        for _ in range(2):
            raw.post(OPERATION, "Origin: https://evil.example", length=2)
            raw.send(b"{}")
            assert raw.answer()[0] == 403
        assert raw.get("/v1/topologies/default")[0] == 200


def test_a_refused_body_that_is_large_is_not_waited_for(served: AckerProcess) -> None:
    with RawHttp(served.url) as raw:
        raw.post(OPERATION, "Sec-Fetch-Site: cross-site", "Expect: 100-continue", length=1_000_000)
        assert raw.answer()[0] == 403
