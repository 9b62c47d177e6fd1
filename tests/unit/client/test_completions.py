"""Tests a spout that reads the completions of its roots."""

import httpx
import pytest
from acker_client import Completion, InvalidResponse, Outcome, UsageError
from acker_client.testing import lost_reply
from acker_protocol.errors import Forbidden, MailboxOwned


@pytest.fixture
def spout(acker):
    return acker.shared_spout("orders")


def finish(spout, *message_ids: str) -> None:
    """Emit roots without edges: they are acked at once."""
    for message_id in message_ids:
        with spout.emit(message_id=message_id):
            pass


def polls(service) -> list[dict[str, str]]:
    return [dict(request.url.params) for request in service.requests if request.url.path.endswith("/completions")]


def test_a_completion_has_the_fields_of_the_answer(acker, spout, time):
    with spout.emit(message_id="42") as root:
        tup = acker.receive(root.headers("split"), component="split")
    time.sleep(1.5)
    acker.fail(tup, reason="no such word")
    [done] = spout.completions(until=0)
    assert done == Completion(
        id=done.id,
        root_id=root.root_id,
        outcome=Outcome.FAILED,
        message_id="42",
        reason="no such word",
        component="split",
        complete_latency=1.5,
        at=time.now,
    )
    assert len(done.id) == 32


def test_the_completion_of_a_timeout_tells_where_its_root_hung(acker, spout, time):
    with spout.emit(message_id="42") as root:
        root.anchor()  # nobody processes this one
        tup = acker.receive(root.headers("split"), component="split")
    acker.ack(tup)
    acker.flush()
    acked_at = time.now
    time.sleep(31)
    [done] = spout.completions(until=0)
    assert (done.outcome, done.component, done.last_component) == (Outcome.TIMED_OUT, None, "split")
    assert (done.last_ack_at, done.outstanding) == (acked_at, 1)


def test_every_completion_is_given_and_released(spout, service):
    finish(spout, *"abcde")
    told = [done.message_id for done in spout.completions(until=0.5, poll_timeout=0.5, page_size=2)]
    assert told == list("abcde")
    assert service.completions("orders") == []


def test_an_item_is_not_released_before_its_body_has_ended(spout, service):
    finish(spout, *"abc")
    for done in spout.completions(until=0, page_size=1):
        assert service.completions("orders")[0] == done.message_id
    finish(spout, "d")
    completions = spout.completions(until=10, page_size=2)
    assert [next(completions).message_id, next(completions).message_id] == ["b", "c"]
    assert service.completions("orders") == ["b", "c", "d"]
    assert next(completions).message_id == "d"
    assert service.completions("orders") == ["d"]


def test_an_completion_whose_body_raised_comes_again(spout, service):
    finish(spout, *"abc")

    def read():
        for done in spout.completions(until=0):
            raise ValueError("no", done)

    with pytest.raises(ValueError, match="no"):
        read()
    assert service.completions("orders") == ["a", "b", "c"]
    assert [done.message_id for done in spout.completions(until=0)] == ["a", "b", "c"]


def test_a_stop_ends_the_reading_with_the_current_page_and_releases_it(spout, service):
    finish(spout, *"abcd")
    told = []
    for done in spout.completions(stop=lambda: len(told) > 0, page_size=2):
        told.append(done.message_id)  # noqa: PERF401 - stop looks at it meanwhile
    assert told == ["a", "b"]
    assert service.completions("orders") == ["c", "d"]


def test_a_page_that_is_left_within_comes_again(spout, service):
    finish(spout, *"ab")
    for _ in spout.completions():
        break
    assert service.completions("orders") == ["a", "b"]


def test_a_stop_that_is_there_from_the_beginning_reads_nothing(spout, service):
    assert list(spout.completions(stop=lambda: True)) == []
    assert service.requests == []


def test_a_poll_waits_no_longer_than_the_time_that_is_left(spout, service):
    finish(spout, "a")
    list(spout.completions(until=70))
    assert [int(poll["wait_ms"]) for poll in polls(service)] == [30_000, 30_000, 30_000, 10_000]
    finish(spout, "b")
    list(spout.completions(until=0))
    assert polls(service)[-1]["wait_ms"] == "0"


def test_a_poll_is_given_the_time_that_it_waits_on_purpose(spout, service):
    finish(spout, "a")
    next(spout.completions(poll_timeout=30))
    asked = [request for request in service.requests if request.url.path.rpartition("/")[2] in ("init", "completions")]
    assert [request.extensions["timeout"]["read"] for request in asked] == [10.0, 40.0]


def test_reading_goes_on_behind_what_was_read(spout, service):
    finish(spout, *"abc")
    list(spout.completions(until=0.5, page_size=2))
    assert [poll.get("after") for poll in polls(service)][:2] == [None, "2"]


def test_a_spout_that_has_not_emitted_yet_waits_for_its_first_completion(spout, service, time):
    completions = spout.completions(until=1)
    assert list(completions) == []
    assert len(polls(service)) == 10
    assert sum(time.slept) == pytest.approx(1)


def test_an_answer_that_comes_early_and_empty_is_no_reason_to_ask_in_a_loop(spout, service, time):
    finish(spout, "a")
    list(spout.completions(until=1, poll_timeout=0))
    assert len(polls(service)) == 11


def test_a_release_whose_reply_was_lost_is_sent_again(spout, service):
    finish(spout, *"ab")
    service.faults += [None, lost_reply(httpx.ReadTimeout("lost"))]
    assert len(list(spout.completions(until=0))) == 2
    first, again = (request for request in service.requests if request.url.path.endswith("/release"))
    assert first.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    assert service.store.released == 2


def test_a_mailbox_that_a_webhook_owns_cannot_be_released(spout, service):
    finish(spout, "a")
    service.faults += [None, MailboxOwned("a webhook owns it")]
    with pytest.raises(MailboxOwned):
        list(spout.completions(until=0))


def test_a_refused_reading_is_raised(spout, service):
    service.faults += [Forbidden("scope ack")]
    with pytest.raises(Forbidden):
        list(spout.completions())


@pytest.mark.parametrize("item", [{}, {"id": "1"}, None])
def test_an_answer_without_completions_is_reported(spout, service, item):
    service.faults += [httpx.Response(200, json={"completions": [item], "cursor": "1"})]
    with pytest.raises(InvalidResponse):
        list(spout.completions())


@pytest.mark.parametrize(
    "reading", [{"page_size": 0}, {"page_size": 10_001}, {"poll_timeout": -1}, {"poll_timeout": 60.001}]
)
def test_limits_of_the_contract_are_reported_at_once(spout, reading):
    with pytest.raises(UsageError, match=next(iter(reading))):
        list(spout.completions(**reading))


def test_run_tells_the_handlers_as_storm_does(acker, spout, service, time):
    finish(spout, "good")
    with spout.emit(message_id="bad") as root:
        acker.fail(acker.receive(root.headers("split"), component="split"))
    with spout.emit(message_id="late", message_timeout=1) as root:
        root.anchor("split")
    time.sleep(2)
    acked, failed = [], []
    spout.listen(on_ack=acked.append, on_fail=failed.append, until=0)
    assert (acked, failed) == (["good"], ["bad", "late"])
    assert service.completions("orders") == []


def test_run_without_a_handler_for_an_outcome_passes_it_over(spout, service):
    finish(spout, "good")
    spout.listen(on_fail=pytest.fail, until=0)
    assert service.completions("orders") == []


def test_run_releases_nothing_of_a_handler_that_raised(spout, service):
    finish(spout, "good")
    with pytest.raises(ZeroDivisionError):
        spout.listen(on_ack=lambda _: 1 / 0, until=0)
    assert service.completions("orders") == ["good"]
