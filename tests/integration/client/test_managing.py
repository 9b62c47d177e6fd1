"""The client manages spout tasks, callbacks, dead letters, failures, topologies and roots of a real acker."""

import time
from collections.abc import Iterator

import httpx
import pytest
from acker_client import (
    Acker,
    AsyncAcker,
    InvalidRequest,
    OperationState,
    Outcome,
    RetriesExhausted,
    SpoutBusy,
    UnknownRoot,
    UnknownSpout,
    UnknownTopology,
    UsageError,
)

from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + "AAAA" * 8
NOBODY = "00000000000000ff"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    options = ("--callback-allow-cidrs", "127.0.0.0/8", "--callback-schedule-s", "0.1")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *options) as acker:
        yield acker


@pytest.fixture
def acker(process: AckerProcess) -> Iterator[Acker]:
    """A client of a topology that is new for each test."""
    with Acker(process.url, "orders", linger=0) as acker:
        acker.topologies.create("orders")
        yield acker
        acker.topologies.delete("orders", force=True, discard=True)


def emit(acker: Acker, message_id: str) -> str:
    with acker.shared_spout("shop").emit(message_id) as root:
        root.headers()
    return root.root_id


def end(acker: Acker, message_id: str) -> None:
    with acker.shared_spout("shop").emit(message_id):
        pass


def test_spout_tasks_are_listed_read_and_deleted(acker: Acker) -> None:
    assert acker.spouts.list() == ()
    emit(acker, "42")
    [shop] = acker.spouts.list()
    assert (shop.name, shop.pending, shop.unread, shop.dead_letters, shop.callback) == ("shop", 1, 0, 0, None)
    assert shop.last_emit_at == pytest.approx(time.time(), abs=60)
    assert (shop.ephemeral, shop.last_read_at) == (False, None)
    assert acker.spouts.get("shop") == shop
    with pytest.raises(SpoutBusy):
        acker.spouts.delete("shop")
    acker.spouts.delete("shop", discard=True)
    with pytest.raises(UnknownSpout):
        acker.spouts.get("shop")
    with pytest.raises(UsageError, match="spout task's name"):
        acker.spouts.get("no name")


def test_a_webhook_is_set_tested_paused_resumed_rotated_and_removed(acker: Acker) -> None:
    receiver = Receiver()
    with served(receiver) as port:
        made = acker.spouts.set_webhook("shop", f"http://127.0.0.1:{port}/")
        assert (made.kind, made.state, made.url) == ("webhook", "on", f"http://127.0.0.1:{port}/")
        assert made.secret is not None
        assert made.secret not in repr(made)
        assert acker.spouts.set_webhook("shop", f"http://127.0.0.1:{port}/").secret is None
        good = acker.spouts.test_webhook("shop")
        assert (good.delivered, good.status, good.error) == (True, 200, None)
        receiver.plan.append(Planned(status=500))
        bad = acker.spouts.test_webhook("shop")
        assert (bad.delivered, bad.status) == (False, 500)
    assert acker.spouts.pause_callback("shop") == "paused"
    callback = acker.spouts.get("shop").callback
    assert callback is not None
    assert (callback.state, callback.secret, callback.attempt) == ("paused", None, 0)
    assert acker.spouts.resume_callback("shop") == "on"
    assert acker.spouts.rotate_secret("shop") != made.secret
    acker.spouts.remove_callback("shop")
    assert acker.spouts.get("shop").callback is None
    for act in (acker.spouts.pause_callback, acker.spouts.test_webhook, acker.spouts.rotate_secret):
        with pytest.raises(InvalidRequest):
            act("shop")


@pytest.mark.parametrize(("url", "secret"), [("http://127.0.0.1:9/", "short"), (b"http://127.0.0.1:9/", SECRET)])
def test_a_webhook_that_cannot_be_set_changes_nothing(acker: Acker, url: str, secret: str) -> None:
    with pytest.raises(UsageError, match=r"secret must be whsec_|url must be a string") as raised:
        acker.spouts.set_webhook("shop", url, secret=secret)
    assert "short" not in str(raised.value)
    with pytest.raises(InvalidRequest, match="url"):
        acker.spouts.set_webhook("shop", "ftp://shop.example")
    assert acker.spouts.list() == ()


def test_completions_are_published_only_where_a_subscriber_can_connect(acker: Acker) -> None:
    with pytest.raises(InvalidRequest, match="store-port"):
        acker.spouts.set_pubsub("shop")


def test_dead_letters_are_listed_replayed_and_discarded_by_error_and_time(acker: Acker) -> None:
    receiver = Receiver()
    receiver.plan.extend([Planned(status=503)] * 1_000)
    began = time.time()
    with served(receiver) as port:
        acker.spouts.set_webhook("shop", f"http://127.0.0.1:{port}/")
        for message_id in "123":
            end(acker, message_id)
        eventually_true(lambda: acker.spouts.get("shop").dead_letters == 3)
    letters = acker.spouts.dead_letters("shop", error="503", since=began - 60)
    assert sorted(letter.message_id or "" for letter in letters) == ["1", "2", "3"]
    assert {(letter.acked, letter.attempts, "503" in letter.error) for letter in letters} == {(True, 2, True)}
    some = acker.spouts.dead_letters("shop", limit=2)
    assert len(some) == 2
    assert all(one in letters for one in some)
    assert acker.spouts.dead_letters("shop", error="refused") == ()
    assert acker.spouts.dead_letters("shop", until=began - 60) == ()
    assert acker.spouts.discard_dead_letters("shop", error="refused") == 0
    acker.spouts.pause_callback("shop")
    assert acker.spouts.replay_dead_letters("shop", since=began - 60, error="503") == 3
    assert acker.spouts.dead_letters("shop") == ()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"limit": 0}, "limit must be 1 or more"),
        ({"limit": 1.5}, "limit must be a whole number"),
        ({"error": 503}, "error must be a string"),
        ({"since": "yesterday"}, "since must be a number"),
        ({"until": float("inf")}, "until must be a number of seconds"),
    ],
)
def test_what_no_dead_letter_can_be_chosen_by_is_refused(acker: Acker, wrong: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        acker.spouts.dead_letters("shop", **wrong)  # type: ignore[arg-type]


def test_dead_letters_are_read_on_behind_an_empty_page(process: AckerProcess) -> None:
    """A page that filters ends after a second, and may then be empty while there are more."""
    letter = {
        "id": "0" * 32, "root_id": "a1" * 8, "outcome": "acked", "message_id": "42", "reason": None, "component": None,
        "complete_latency_ms": 1, "at_ms": 1, "attempts": 2, "error": "answered 503",
    }  # fmt: skip
    pages = [([], "first", True), ([letter], "second", True), ([], "third", False)]
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("after"))
        found, cursor, more = pages[len(asked) - 1]
        return httpx.Response(200, json={"dead_letters": found, "cursor": cursor, "more": more})

    with Acker(process.url, "orders", transport=httpx.MockTransport(answer)) as acker:
        assert [one.message_id for one in acker.spouts.dead_letters("shop", error="503")] == ["42"]
    assert asked == [None, "first", "second"]


def test_a_secret_is_rotated_once_where_the_answer_is_lost(process: AckerProcess, acker: Acker) -> None:
    """A second rotation would end the secret that receivers know: only the last two sign."""
    acker.spouts.set_webhook("shop", "https://shop.example/", secret=SECRET)
    sent: list[str] = []

    class LosesAnswers(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            sent.append(request.url.path)
            super().handle_request(request).read()
            raise httpx.ReadTimeout("the answer is lost")

    with (
        Acker(process.url, "orders", transport=LosesAnswers()) as losing,
        pytest.raises(RetriesExhausted, match="not sent again") as raised,
    ):
        losing.spouts.rotate_secret("shop")
    assert len(sent) == 1
    assert raised.value.outcome_unknown


def test_failures_are_listed_newest_first(acker: Acker) -> None:
    roots = [emit(acker, str(number)) for number in range(3)]
    for root_id in roots:
        assert acker.roots.fail(root_id, "card refused") is OperationState.FAILED
    listed = acker.failures.list()
    assert {(one.outcome, one.reason, one.spout_task) for one in listed} == {
        (Outcome.FAILED, "forced: card refused", "shop")
    }
    assert sorted(one.root_id for one in listed) == sorted(roots)
    assert [one.at for one in listed] == sorted((one.at for one in listed), reverse=True)
    assert acker.failures.list(limit=2) == listed[:2]
    assert acker.failures.list(outcome=Outcome.TIMED_OUT) == acker.failures.list(component="charge") == ()
    assert acker.failures.list(reason="refused", text="forced", since=listed[-1].at, until=listed[0].at + 1) == listed
    assert acker.failures.list(reason="expired") == acker.failures.list(text="expired") == ()
    assert acker.failures.list(until=listed[-1].at - 60) == acker.failures.list(since=listed[0].at + 60) == ()
    for wrong in ({"reason": 1}, {"text": b"x"}, {"since": "yesterday"}, {"until": -1}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            acker.failures.list(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="outcome must be 'failed' or 'timed_out'"):
        acker.failures.list(outcome=Outcome.ACKED)
    with pytest.raises(UsageError, match="component"):
        acker.failures.list(component="no name")


def test_a_root_is_failed_by_hand_once(acker: Acker) -> None:
    root_id = emit(acker, "42")
    assert acker.roots.fail(root_id) is OperationState.FAILED
    assert acker.roots.fail(root_id, "again") is OperationState.FINISHED
    assert acker.roots.get(root_id).reason == "forced"
    with pytest.raises(UnknownRoot):
        acker.roots.fail(NOBODY)
    with pytest.raises(UsageError, match="root_id"):
        acker.roots.fail("42")
    with pytest.raises(UsageError, match="reason"):
        acker.roots.fail(root_id, "x" * 1_025)


def test_a_topology_is_updated_and_none_is_created(acker: Acker) -> None:
    acker.topologies.update("orders", max_spout_pending=7, progress_timeout=5, trace=0.5)
    changed = acker.topologies.update("orders", message_timeout=90, end_on="all_ended", grace=5)
    assert (changed.message_timeout, changed.max_spout_pending, changed.progress_timeout) == (90.0, 7, 5.0)
    assert (changed.end_on, changed.grace) == ("all_ended", 5.0)
    assert (changed.dedupe_automatic, changed.dedupe_window, changed.trace) == (True, 90.0, 0.5)
    none = acker.topologies.update("orders", max_spout_pending=0, progress_timeout=0, dedupe_window=0)
    assert (none.max_spout_pending, none.progress_timeout, none.dedupe_window) == (None, None, 0.0)
    with pytest.raises(UsageError, match="retention"):
        acker.topologies.update("orders", retention=0)
    assert acker.topologies.get("orders") == none
    with pytest.raises(UnknownTopology):
        acker.topologies.update("oders", message_timeout=90)
    with pytest.raises(UnknownTopology):
        acker.topologies.get("oders")


async def test_tasks_manage_as_threads_do(process: AckerProcess, acker: Acker) -> None:
    first, second = emit(acker, "1"), emit(acker, "2")
    async with AsyncAcker(process.url, "orders") as own:
        assert await own.roots.fail(first, "stuck") is OperationState.FAILED
        assert [one.root_id for one in await own.failures.list(spout_task="shop")] == [first]
        assert (await own.topologies.update("orders", trace=1)).trace == 1
        assert (await own.topologies.update("orders", grace=5)).grace == 5.0
        assert await own.spouts.list() == acker.spouts.list()
        assert (await own.spouts.set_webhook("shop", "https://shop.example/", secret=SECRET)).secret is None
        assert await own.spouts.pause_callback("shop") == "paused"
        assert (await own.spouts.test_webhook("shop")).delivered is False
        assert (await own.spouts.rotate_secret("shop")).startswith("whsec_")
        assert await own.spouts.resume_callback("shop") == "on"
        await own.spouts.remove_callback("shop")
        assert (await own.spouts.get("shop")).callback is None
        assert await own.spouts.dead_letters("shop", error="503") == ()
        assert await own.spouts.replay_dead_letters("shop") == await own.spouts.discard_dead_letters("shop") == 0
        await own.roots.fail(second)
        await own.spouts.delete("shop", discard=True)
        assert await own.spouts.list() == ()
