"""A Redis login that may do less than it should: found out at the start, and no completion is lost by a hint."""

import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest

from examples.support.ports import free_port
from tests.faults.test_rights import PAGE
from tests.support.caller import Caller, ack, fail, init
from tests.support.receivers import Receiver, served
from tests.support.servers import PROGRAM, AckerProcess, acker_serve
from tests.support.stores import Running, running
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

E = 9
DEFAULT = "/v1/topologies/default"
WITHOUT_CHANNELS = {
    "no channel at all": {"&acker:*": ""},
    "other channels": {"&acker:*": "&else:*"},
    "no right to publish": {"+spublish": ""},
    "no right to subscribe": {"+ssubscribe": ""},
}
NEEDED = ("xadd", "smismember", "pexpireat", "time", "unlink")


def rights(changes: dict[str, str] | None = None) -> list[str]:
    """The rights that the page lists, with these changes."""
    [listed] = re.findall(r"`(~acker:[^`]*)`", PAGE.read_text(encoding="utf-8"))
    changed = [(changes or {}).get(right, right) for right in listed.split()]
    return [right for right in changed if right]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running("valkey", tmp_path_factory.mktemp("redis")) as redis:
        yield redis


def log_in(redis: Running, *rules: str) -> str:
    """Set up the login with these rights; give the address that uses it."""
    member = redis.members[0]
    member.ask("ACL", "DELUSER", "acker")
    member.ask("ACL", "SETUSER", "acker", "reset", "on", ">pw", *rules)
    return f"redis://acker:pw@127.0.0.1:{member.port}"


@dataclass(frozen=True)
class Stage:
    """An acker whose login has no channels."""

    acker: AckerProcess
    call: Caller


@pytest.fixture(params=WITHOUT_CHANNELS.values(), ids=WITHOUT_CHANNELS.keys())
async def stage(redis: Running, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    redis.members[0].ask("FLUSHALL")
    url = log_in(redis, *rights(request.param))
    with acker_serve(tmp_path, "--redis-url", url, "--tick-ms", "20") as acker:
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            yield Stage(acker, Caller(http))


async def test_without_channels_every_completion_of_a_call_is_told_all_the_same(stage: Stage) -> None:
    call = stage.call
    names = ("a", "b", "c")
    ops = [init(root, E, spout_task=names[root % 3]) for root in range(1, 31)]
    assert await call.states(*ops, key="k") == ["pending"] * 30
    ends = [fail(root) if root % 2 else ack(root, E) for root in range(1, 31)]
    assert set(await call.states(*ends, key="l")) == {"acked", "failed"}
    outcomes = sorted([each for name in names for each in await call.outcomes(name)])
    assert outcomes == [(root, "failed" if root % 2 else "acked") for root in range(1, 31)]
    for name in names:
        shown = await call.spout(name)
        assert (shown["pending"], shown["unread"]) == (0, 10)


async def test_without_channels_timeouts_are_told_and_single_operations_answered(stage: Stage) -> None:
    call = stage.call
    assert await call.state(init(1, E)) == "pending"
    assert await call.state(init(2, E, message_timeout_ms=100)) == "pending"
    assert await call.state(ack(1, E)) == "acked"

    async def is_told() -> bool:
        return sorted(await call.outcomes()) == [(1, "acked"), (2, "timed_out")]

    await eventually(is_told, within=10)


async def test_without_channels_news_comes_by_polling_and_the_log_says_so_once(stage: Stage) -> None:
    call = stage.call
    await call.put_spout("waiting")
    async with httpx.AsyncClient(base_url=stage.acker.url, timeout=20) as http:
        await call.states(init(1, spout_task="waiting"))
        cursor = (await Caller(http).completions("waiting"))["cursor"]
        await call.post(init(2, E, spout_task="waiting", message_timeout_ms=300))
        answer = await http.get(
            "/v1/topologies/default/spouts/waiting/completions", params={"after": cursor, "wait_ms": 15_000}
        )
    assert [done["outcome"] for done in answer.json()["completions"]] == ["timed_out"]
    warnings = [line for line in stage.acker.log.read_text().splitlines() if "WARN" in line and "channel" in line]
    assert len(warnings) == 1, stage.acker.log.read_text()
    assert stage.acker.http.get("/readyz").is_success


@pytest.mark.parametrize("missing", NEEDED)
def test_an_acker_without_a_right_that_a_function_needs_ends_and_names_it(
    redis: Running, tmp_path: Path, missing: str
) -> None:
    url = log_in(redis, *rights({f"+{missing}": ""}))
    code, log = ended(tmp_path, url)
    assert code not in {0, None}
    assert missing in log.lower()
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"~acker:*": "~else:*"}, "acker:*"), ({"+fcall": ""}, "fcall"), ({"+function|load": ""}, "function")],
    ids=["the keys", "to call functions", "to load functions"],
)
def test_so_does_one_that_may_not_use_the_keys_or_the_library(
    redis: Running, tmp_path: Path, changes: dict[str, str], named: str
) -> None:
    redis.members[0].ask("FUNCTION", "FLUSH")
    code, log = ended(tmp_path, log_in(redis, *rights(changes)))
    assert code not in {0, None}
    assert named in log.lower()
    assert "Traceback" not in log


def test_an_acker_that_cannot_wait_for_replicas_ends_only_where_it_has_to(redis: Running, tmp_path: Path) -> None:
    url = log_in(redis, *rights({"+wait": ""}))
    code, log = ended(tmp_path, url, "--durability", "replica:1")
    assert code not in {0, None}
    assert "+wait" in log
    with acker_serve(tmp_path / "relaxed", "--redis-url", url) as acker:
        assert acker.http.get("/readyz").is_success


@pytest.mark.parametrize("kind", ["redis7", "redis8"])
def test_redis_names_a_missing_right_too_and_loses_nothing_without_channels(tmp_path: Path, kind: str) -> None:
    with running(kind, tmp_path) as redis:
        code, log = ended(tmp_path, log_in(redis, *rights({"+xadd": ""})))
        assert code not in {0, None}
        assert "+xadd" in log
        url = log_in(redis, *rights({"&acker:*": ""}))
        with acker_serve(tmp_path / "acker", "--redis-url", url) as acker:
            ops = [init(root, spout_task=f"s{root % 3}") for root in range(1, 31)]
            assert acker.http.post(f"{DEFAULT}/batch", json={"ops": ops}).json()["results"] == ["acked"] * 30
            read = [acker.http.get(f"{DEFAULT}/spouts/s{task}/completions").json() for task in range(3)]
            assert [len(page["completions"]) for page in read] == [10, 10, 10]


async def test_without_channels_a_stream_and_a_webhook_hear_of_news_within_seconds(
    redis: Running, tmp_path: Path
) -> None:
    redis.members[0].ask("FLUSHALL")
    url = log_in(redis, *rights({"&acker:*": "", "+spublish": "", "+ssubscribe": ""}))
    receiver = Receiver()
    options = ("--callback-allow-hosts", "127.0.0.1")
    with served(receiver) as port, acker_serve(tmp_path, "--redis-url", url, *options) as acker:
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            call = Caller(http)
            await call.put_spout("told")
            await call.put_spout("posted", callback={"kind": "webhook", "url": f"http://127.0.0.1:{port}/"})
            stream = http.stream("GET", f"{DEFAULT}/spouts/told/completions", headers={"Accept": "text/event-stream"})
            async with stream as events:
                lines = events.aiter_lines()
                await call.states(init(1, spout_task="posted"))
                await eventually(lambda: _seen(receiver, 1), within=5)
                await call.states(init(2, spout_task="told"), init(3, spout_task="posted"))
                with anyio.fail_after(5):
                    while "0000000000000002" not in await anext(lines):
                        pass
                await eventually(lambda: _seen(receiver, 3), within=5)


async def _seen(receiver: Receiver, root: int) -> bool:
    return any(f"{root:016x}" in str(received.document) for received in receiver.received)


async def test_a_right_that_is_taken_away_is_named_in_the_answer_and_nothing_is_half_done(
    redis: Running, tmp_path: Path
) -> None:
    redis.members[0].ask("FLUSHALL")
    url = log_in(redis, *rights())
    with acker_serve(tmp_path, "--redis-url", url) as acker:
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            call = Caller(http)
            assert await call.states(init(1, E), init(2, E)) == ["pending", "pending"]
            redis.members[0].ask("ACL", "SETUSER", "acker", "-info", "-zadd")

            async def is_refused() -> bool:
                return (await call.post(init(3, E))).status_code == 503

            await eventually(is_refused)
            answer = await call.post(ack(1, E), key="k")
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
            assert "+zadd" in answer.json()["detail"]
            answers = [answer, await call.post(init(3, E)), await call.batch(init(3, E), ack(1, E), key="l")]
            assert [each.json()["retryable"] for each in answers] == [False] * 3

            async def is_not_ready() -> bool:
                return (await http.get("/readyz")).status_code == 503

            await eventually(is_not_ready)
            redis.members[0].ask("ACL", "SETUSER", "acker", "+info", "+zadd")
            assert await call.states(ack(1, E), ack(2, E), key="k2") == ["acked", "acked"]
            assert sorted(await call.outcomes()) == [(1, "acked"), (2, "acked")]


def ended(folder: Path, redis_url: str, *options: str) -> tuple[int | None, str]:
    """Start an acker that should not begin; give its exit code (None: it began) and what it logged."""
    port = free_port()
    command = [sys.executable, *PROGRAM, "serve", "--port", str(port), "--redis-url", redis_url, *options]
    acker = AckerProcess(f"http://127.0.0.1:{port}", command, folder / "log")

    def has_begun_or_ended() -> bool:
        try:
            return acker.process.poll() is not None or acker.http.get("/livez").is_success
        except httpx.HTTPError:
            return False

    try:
        eventually_true(has_begun_or_ended)
        return acker.process.poll(), acker.log.read_text()
    finally:
        acker.http.close()
        if acker.process.poll() is None:
            acker.kill()
