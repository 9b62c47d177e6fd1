"""Two releases on one Redis: the newer library replaces the older one, and stays when the release is rolled back."""

import pytest
from acker_service.components import Components
from acker_service.redis import library

from tests.cluster.upgraded import newer
from tests.support.caller import Caller, ack, init
from tests.support.redis_side import everywhere

pytestmark = pytest.mark.anyio

OWN = library.version(library.source())


async def loaded(parts: Components) -> set[int]:
    return {int(version) for version in await everywhere(parts, "FCALL", "acker_version", 0)}


async def test_a_replica_replaces_an_older_library_whole(parts: Components) -> None:
    older = library.source().replace(f"local VERSION = {OWN}", "local VERSION = 1")
    await everywhere(parts, "FUNCTION LOAD", "REPLACE", older)
    await parts.redis.load()
    assert await loaded(parts) == {OWN}


async def test_after_a_rollback_the_newer_library_stays_and_serves_the_older_release(
    call: Caller, parts: Components
) -> None:
    try:
        await everywhere(parts, "FUNCTION LOAD", "REPLACE", newer())
        await parts.redis.load()
        assert await loaded(parts) == {OWN + 1}
        await call.post(init(1, 9))
        assert (await call.post(ack(1, 9))).json()["state"] == "acked"
    finally:
        await everywhere(parts, "FUNCTION LOAD", "REPLACE", library.source())
