"""A program hears what became of its roots: from Redis, by a webhook, or by asking; until its acker is closed."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acker_client import Completion, RetriesExhausted, UsageError
from acker_spark import SparkAcker
from redis import Redis

from tests.spark.tracked import Tracked
from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve, valkey
from tests.support.waiting import eventually_true

TRIES = ",".join(["0.2"] * 40 + ["5"] * 60)
"""When what was not taken is posted again: soon, and for long enough on a slow machine."""


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The acker's Redis."""
    with valkey(tmp_path_factory.mktemp("valkey")) as store:
        yield store.url


@pytest.fixture(scope="module")
def acker_process(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[AckerProcess]:
    """An acker that posts to this machine."""
    allowing = ("--callback-allow-hosts", "127.0.0.1", "--callback-schedule-s", TRIES)
    with acker_serve(tmp_path_factory.mktemp("acker"), "--redis-url", redis_url, *allowing) as process:
        yield process


@pytest.fixture
def acker(tracked: Tracked) -> SparkAcker:
    """An acker whose topology is there."""
    acker = tracked.acker()
    assert acker.topology.dedupe_window_ms
    return acker


class Listener:
    """A loop over completions in a thread: what it was told, and what ended it."""

    def __init__(self, completions: Callable[[], Iterator[Completion]]) -> None:
        self._completions = completions
        self.told: list[str] = []
        self.raised: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def hears(self, *ids: str) -> None:
        """It was told these, each once, and nothing else."""
        eventually_true(lambda: len(self.told) >= len(ids) or not self.thread.is_alive(), within=90)
        assert self.raised is None
        assert sorted(self.told) == sorted(ids)

    def ends(self) -> None:
        """It ends by itself."""
        self.thread.join(90)
        assert not self.thread.is_alive()
        assert self.raised is None

    def _run(self) -> None:
        try:
            self.told.extend(str(done.message_id) for done in self._completions())
        except BaseException as error:  # noqa: BLE001 - shown to the test
            self.raised = error


def end(tracked: Tracked, *ids: str, number: int) -> None:
    """Let roots end at once: they have no edges."""
    ops = [
        {"op": "init", "root_id": f"{number + at:016x}", "ack_val": "0" * 16, "message_id": one, "spout_task": "reader"}
        for at, one in enumerate(ids)
    ]
    assert tracked.post("/batch", {"ops": ops})["results"] == ["acked"] * len(ids)


def subscribers(redis_url: str, tracked: Tracked) -> int:
    """How many listen to the channel of the spout task."""
    channel = f"acker:{tracked.topology}:reader"
    with Redis.from_url(redis_url) as redis:
        return int(redis.pubsub_numsub(channel)[0][1])


def test_redis_tells_what_ended_before_and_what_ends_and_misses_none_when_it_is_cut_off(
    acker: SparkAcker, tracked: Tracked, redis_url: str
) -> None:
    end(tracked, "1", "2", number=1)
    listener = Listener(lambda: acker.subscribe(redis_url))
    try:
        listener.hears("1", "2")
        eventually_true(lambda: subscribers(redis_url, tracked) == 1, within=90)
        end(tracked, "3", number=3)
        listener.hears("1", "2", "3")
        with Redis.from_url(redis_url) as redis:
            redis.client_kill_filter(_type="pubsub")
        end(tracked, "4", "5", number=4)
        listener.hears("1", "2", "3", "4", "5")
        assert tracked.get("/spouts/reader")["callback"]["kind"] == "pubsub"
    finally:
        acker.close()
    listener.ends()
    assert subscribers(redis_url, tracked) == 0


def test_a_loop_that_asks_ends_when_its_acker_is_closed_and_a_new_one_begins_where_it_was(
    acker: SparkAcker, tracked: Tracked
) -> None:
    end(tracked, "1", number=1)
    listener = Listener(lambda: acker.completions(poll_timeout=0.1))
    try:
        listener.hears("1")
    finally:
        acker.close()
    listener.ends()
    end(tracked, "2", number=2)
    [done] = acker.completions(until=0)
    assert (done.message_id, done.acked) == ("2", True)


def test_a_stop_of_ones_own_ends_a_loop_too_and_one_that_is_no_function_is_refused(
    acker: SparkAcker, tracked: Tracked, redis_url: str
) -> None:
    end(tracked, "1", number=1)
    told: list[Completion] = []
    told.extend(acker.subscribe(redis_url, stop=lambda: bool(told)))
    assert [done.message_id for done in told] == ["1"]
    with pytest.raises(UsageError, match="stop must be a function"):
        next(acker.completions(stop=True))  # type: ignore[arg-type]


def test_an_acker_that_does_not_answer_is_asked_for_as_long_as_the_options_say() -> None:
    away = Receiver()
    away.plan += [Planned(status=503)] * 1_000
    with served(away) as port:
        acker = SparkAcker(url=f"http://127.0.0.1:{port}", topology="t", spout_task="reader", retry_timeout=0)
        with acker, pytest.raises(RetriesExhausted):
            next(acker.completions(until=1))
    assert len(away.received) == 1


def test_an_address_that_is_none_of_redis_is_refused_in_words(acker: SparkAcker) -> None:
    with pytest.raises(UsageError, match="redis"):
        next(acker.subscribe("http://127.0.0.1"))


def test_without_redis_one_sentence_says_what_to_install(acker: SparkAcker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "acker_client.sync._redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"^subscribe\(\) needs redis: install acker-client with its extra, acker-client\[redis\]$",
    ):
        next(acker.subscribe("redis://127.0.0.1"))


class Door:
    """Where a webhook is served: it counts who comes, and shows them to the application behind."""

    def __init__(self) -> None:
        self.came = 0
        self.app = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let one in."""
        self.came += 1
        await self.app(scope, receive, send)


def test_a_webhook_calls_its_handler_and_again_for_what_the_handler_did_not_take(tracked: Tracked) -> None:
    """The topology is not there before: registering makes it."""
    acker, told, door = tracked.acker(), dict[str, list[str]]({"1": [], "2": []}), Door()

    def take(done: Completion) -> None:
        told[str(done.message_id)].append(done.id)
        if done.message_id == "2" and len(told["2"]) == 1:
            raise RuntimeError("not now")

    with served(door) as port:
        door.app = acker.webhook(f"http://127.0.0.1:{port}/", take)
        assert tracked.get("/spouts/reader")["callback"]["url"] == f"http://127.0.0.1:{port}/"
        end(tracked, "1", "2", number=1)
        eventually_true(lambda: len(told["2"]) > 1 and tracked.get("/spouts/reader")["unread"] == 0, within=90)
    assert [len(set(ids)) for ids in told.values()] == [1, 1]


def test_a_webhook_takes_nothing_that_is_signed_with_another_secret(tracked: Tracked) -> None:
    acker, told, door = tracked.acker(), list[str](), Door()
    with served(door) as port:
        url = f"http://127.0.0.1:{port}/"
        door.app = acker.webhook(url, lambda _: told.append("with the one before"))
        right = acker.webhook(url, on_ack=told.append, secret="whsec_" + "A" * 32)
        end(tracked, "1", number=1)
        eventually_true(lambda: door.came >= 2, within=90)
        assert told == []
        door.app = right
        eventually_true(lambda: told == ["1"], within=90)


def test_a_webhook_owns_the_completions(tracked: Tracked, redis_url: str) -> None:
    acker = tracked.acker()
    acker.webhook("http://127.0.0.1:1/", print)
    with pytest.raises(UsageError, match="go to a webhook"):
        next(acker.subscribe(redis_url))
