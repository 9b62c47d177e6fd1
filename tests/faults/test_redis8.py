"""An acker on Redis 8.0, alone, as a cluster and behind sentinels, whose login may do everything."""

from pathlib import Path

import httpx
import pytest

from tests.support.caller import Caller, ack, init
from tests.support.servers import acker_serve
from tests.support.stores import KINDS, VERSIONS, running, version
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

E = 9


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("redis8")])
async def test_a_root_is_acked_and_told_on_redis_8(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        assert {version(member) for member in store.members} == {VERSIONS["redis8"]}
        with acker_serve(tmp_path / "acker", "--redis-url", store.url) as acker:
            async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
                call = Caller(http)
                assert await call.states(init(1, E)) == ["pending"]
                assert await call.states(ack(1, E)) == ["acked"]

                async def is_told() -> bool:
                    return await call.outcomes() == [(1, "acked")]

                await eventually(is_told)


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
def test_the_other_servers_are_of_the_versions_that_are_named(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as store:
        assert version(store.members[0]) == VERSIONS[kind]
