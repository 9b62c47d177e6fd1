"""A Redis login with no more rights than docs/redis.md asks for."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from acker_service.redis import rights

from tests.support.caller import Caller, ack, init
from tests.support.servers import AckerProcess, acker_serve
from tests.support.stores import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"
E = 9


def listed_rights() -> list[str]:
    """The rights that the page lists."""
    [rights] = re.findall(r"`(~acker:[^`]*)`", PAGE.read_text(encoding="utf-8"))
    return str(rights).split()


@pytest.fixture(params=["valkey", "redis7", "redis8"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[tuple[AckerProcess, Caller]]:
    with running(request.param, tmp_path) as store:
        store.members[0].ask("ACL SETUSER", "acker", "on", ">pw", *listed_rights())
        url = f"redis://acker:pw@127.0.0.1:{store.members[0].port}"
        with acker_serve(tmp_path / "acker", "--redis-url", url, "--tick-ms", "20") as acker:
            async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
                yield acker, Caller(http)


@pytest.fixture
def call(stage: tuple[AckerProcess, Caller]) -> Caller:
    return stage[1]


async def test_the_rights_that_the_page_lists_are_enough_for_all_that_roots_go_through(call: Caller) -> None:
    await call.put(dedupe_window_ms=60_000, retention_ms=1_000)
    long = "a message id that is longer than a record may hold, so it lies beside it"
    inits = (init(1, E, message_id=long), init(2, E), init(3, E, message_timeout_ms=100))
    assert await call.states(*inits, key="k") == ["pending"] * 3
    failed = {"op": "fail", "root_id": f"{2:016x}", "reason": "broken"}
    assert await call.states(ack(1, E), failed) == ["acked", "failed"]

    async def has_ended() -> bool:
        return len(await call.outcomes()) == 3

    await eventually(has_ended)
    read = await call.completions()
    assert (await call.roots())["roots"] == []
    assert await call.release(read["cursor"]) == 3


async def test_they_are_enough_to_remove_what_there_is(call: Caller) -> None:
    http, other = call.http, Caller(call.http, "other")
    await other.put()
    await other.post(init(1, E))
    assert (await http.delete("/v1/topologies/other/spouts/orders", params={"discard": True})).status_code == 204
    assert (await http.delete("/v1/topologies/other", params={"force": True, "discard": True})).status_code == 204


def test_the_page_lists_all_that_is_asked_about() -> None:
    on_channels = (*rights.HINTS, rights.delivery("PUBLISH"), rights.delivery("SPUBLISH"))
    for command in (*rights.COMMANDS, *rights.WAIT, *on_channels):
        assert set(rights.grants([command]).split()) <= set(listed_rights()), command


async def test_they_are_enough_to_publish_and_no_right_is_missed(stage: tuple[AckerProcess, Caller]) -> None:
    acker, call = stage
    await call.put_spout(callback={"kind": "pubsub"})
    await call.post(init(1))

    async def is_published() -> bool:
        shown = (await call.http.get("/metrics")).text
        return 'acker_messages_published_total{topology="default"} 1.0' in shown

    await eventually(is_published)
    log = acker.log.read_text()
    assert "right" not in log
    assert "ERROR" not in log
