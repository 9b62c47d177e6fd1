"""Two releases on one Redis: the newer library replaces the older one, and stays when the release is rolled back."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_protocol.operations import Init, OperationState
from acker_service.components import Components
from acker_service.operations.request import ApplyRequest
from acker_service.redis import library, rights

from tests.cluster.upgraded import newer
from tests.support.caller import Caller, ack, init
from tests.support.columns import batch_of
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


async def test_a_command_that_the_server_lacks_is_not_allowed(parts: Components) -> None:
    asked = ("get acker:{default/0}", "no-such-command acker:{default/0}", "xinfo stream acker:{default/0}")
    for flags in await everywhere(parts, "FCALL", "acker_rights_v1", 0, *asked):
        assert flags == [b"ok", b"101"]


async def test_an_error_of_the_check_is_told_and_is_no_missing_right(parts: Components) -> None:
    broken = library.source().replace("pcall(redis.acl_check_cmd, unpack(words))", "pcall(redis.acl_check_cmd)")
    try:
        await everywhere(parts, "FUNCTION LOAD", "REPLACE", broken)
        with pytest.raises(
            ValueError, match=r"may run 'append acker:[^']* value': ERR Please specify at least one"
        ) as raised:
            await parts.open()
        assert "grant" not in str(raised.value)
    finally:
        await everywhere(parts, "FUNCTION LOAD", "REPLACE", library.source())


@pytest.mark.parametrize("command", [*rights.COMMANDS, *rights.WAIT, *rights.HINTS, rights.delivery("publish")])
async def test_each_command_of_the_check_has_all_its_words(parts: Components, command: str) -> None:
    words = command.split()
    name = rights.grants([command]).rpartition("+")[2]
    for shown in await everywhere(parts, "COMMAND", "INFO", name):
        arity = int(shown[name]["arity"])
        assert len(words) == arity or (arity < 0 and len(words) >= -arity)


@pytest.fixture
async def limited(parts: Components) -> AsyncIterator[Callable[..., Awaitable[Components]]]:
    """Yield the parts of a service whose login has all rights but these."""
    made: list[Components] = []

    async def without(*rules: str) -> Components:
        await everywhere(parts, "ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*", "&*", "+@all", *rules)
        made.append(Components(parts.redis.url.replace("://", "://limited:pw@"), window_ms=600_000))
        return made[-1]

    yield without
    for own in made:
        await own.close()
    await everywhere(parts, "ACL", "DELUSER", "limited")


@pytest.mark.parametrize("rules", [("-spublish",), ("resetchannels",)])
async def test_a_hint_that_may_not_be_published_stops_nothing(
    limited: Callable[..., Awaitable[Components]], parts: Components, rules: tuple[str, ...]
) -> None:
    quiet = await limited(*rules)
    await quiet.open()
    topology = await quiet.registry.get("default")
    operations = [Init(root_id=root, spout_task=f"s{root % 3}", ack_val=0) for root in range(1, 31)]
    reply = await quiet.applier.apply(topology, ApplyRequest(endpoint="batch", operations=batch_of(operations)))
    assert {result.state for result in reply.results} == {OperationState.ACKED}
    counts = await parts.stats.read(await parts.registry.get("default"))
    assert sorted(counts.unread.values()) == [10, 10, 10]
    assert not +counts.pending


async def test_a_missing_right_is_named_before_a_function_runs(
    limited: Callable[..., Awaitable[Components]], parts: Components
) -> None:
    lacking = await limited("-xadd", "-time")
    with pytest.raises(ValueError, match=r"grant it ~acker:\* \+xadd \+time"):
        await lacking.open()
    with pytest.raises(StoreUnavailable, match=r"\+xadd") as raised:
        await lacking.registry.refresh("default")
    assert not raised.value.retryable
    assert await parts.registry.names() == ["default"]
