"""A Redis login with no more rights than docs/redis.md asks for."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.caller import Caller, ack, init
from tests.support.servers import acker_serve
from tests.support.stores import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"
E = 9


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Caller]:
    [rights] = re.findall(r"`(~acker:[^`]*)`", PAGE.read_text(encoding="utf-8"))
    with running("valkey", tmp_path) as store:
        store.members[0].ask("ACL SETUSER", "acker", "on", ">pw", *rights.split())
        url = f"redis://acker:pw@127.0.0.1:{store.members[0].port}"
        with acker_serve(tmp_path / "acker", "--redis-url", url, "--tick-ms", "20") as acker:
            async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
                yield Caller(http)


async def test_the_rights_that_the_page_lists_are_enough_for_all_that_roots_go_through(call: Caller) -> None:
    await call.put(dedupe_window_ms=60_000, retention_ms=1_000)
    long = "a message id that is longer than a record may hold, so it lies beside it"
    inits = (init(1, E, message_id=long), init(2, E), init(3, E, message_timeout_ms=100))
    assert await call.words(*inits, key="k") == ["pending"] * 3
    failed = {"op": "fail", "root_id": f"{2:016x}", "reason": "broken"}
    assert await call.words(ack(1, E), failed) == ["acked", "failed"]

    async def told() -> bool:
        return len(await call.told()) == 3

    await eventually(told)
    read = await call.completions()
    assert (await call.roots())["roots"] == []
    assert await call.release(read["cursor"]) == 3


async def test_they_are_enough_to_remove_what_there_is(call: Caller) -> None:
    http, other = call.http, Caller(call.http, "other")
    await other.put()
    await other.post(init(1, E))
    assert (await http.delete("/v1/topologies/other/spouts/orders", params={"discard": True})).status_code == 204
    assert (await http.delete("/v1/topologies/other", params={"force": True, "discard": True})).status_code == 204
