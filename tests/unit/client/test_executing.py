"""Tests a bolt, by itself and by hand."""

import asyncio

import httpx
import pytest
from acker_client import Misuse, OperationState, Reject, Retry, TupleDone, Unreachable, WrongHeader
from acker_protocol.operations import Outcome
from acker_protocol.states import Finished

PENDING, ACKED = [OperationState.PENDING], [OperationState.ACKED]


@pytest.fixture
def headers(acker):
    """A message of one root, on its way to one consumer."""
    with acker.spout("orders", shared=True).emit(message_id="42") as root:
        return root.anchor("split").headers()


def outcome(service) -> Outcome | None:
    [state] = service.roots.values()
    return state.outcome if isinstance(state, Finished) else None


def test_a_tree_is_acked_when_its_last_tuple_is(acker, service, headers):
    with acker.execute(headers, component="split") as tuple_:
        children = [tuple_.anchor(str(index)).headers() for index in range(3)]
    for child in children:
        assert outcome(service) is None
        with acker.execute(child, component="count"):
            pass
    assert outcome(service) is Outcome.ACKED


def test_the_ack_names_its_edge_and_its_component(acker, service, headers):
    with acker.execute(headers, component="split"):
        pass
    [ack] = service.bodies("ack")
    assert (ack["edge_id"], ack["component"]) == (headers["Acker-Anchors"][-16:], "split")


def test_an_exception_fails_the_tree_with_its_text(acker, service, headers):
    with pytest.raises(ValueError, match="no such word"), acker.execute(headers, component="split"):
        raise ValueError("no such word")
    assert outcome(service) is Outcome.FAILED
    assert [(fail["reason"], fail["component"]) for fail in service.bodies("fail")] == [("no such word", "split")]
    assert service.writes("ack") == []


def test_an_exception_without_a_text_fails_with_its_name(acker, service, headers):
    with pytest.raises(ZeroDivisionError), acker.execute(headers, component="split"):
        raise ZeroDivisionError
    assert service.bodies("fail")[0]["reason"] == "ZeroDivisionError"


def test_an_exception_left_to_redelivery_sends_nothing_and_the_re_run_completes_the_tree(acker, service, headers):
    with pytest.raises(ValueError, match="no"), acker.execute(headers, component="split", on_error="redeliver"):
        raise ValueError("no")
    assert len(service.writes()) == 1
    with acker.execute(headers, component="split", on_error="redeliver"):
        pass
    assert outcome(service) is Outcome.ACKED


def test_a_tuple_left_to_redelivery_can_be_failed_when_the_queue_gives_up(acker, service, headers):
    held = []
    with pytest.raises(ValueError, match="no"), acker.execute(headers, component="split", on_error="redeliver") as one:
        raise ValueError("no", held.append(one))
    acker.fail(held[0], reason="given up")
    assert outcome(service) is Outcome.FAILED


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_the_end_of_the_program_says_nothing_of_the_tuple(acker, service, headers, error):
    with pytest.raises(error), acker.execute(headers, component="split"):
        raise error
    assert len(service.writes()) == 1


def test_a_reject_is_logged_with_root_and_reason_counted_and_acked_and_goes_no_further(acker, service, headers, caplog):
    with acker.execute(headers, component="split"):
        raise Reject("no such card")
    assert outcome(service) is Outcome.ACKED
    assert acker.counts.rejected == 1
    [record] = caplog.records
    assert headers["Acker-Anchors"].split(" ")[2] in record.message
    assert "no such card" in record.message


def test_on_reject_is_told_the_tuple_and_the_reason_before_the_ack(connect, service, headers):
    told = []

    def on_reject(tuple_, reject):
        assert not tuple_.done
        told.append((tuple_.component, str(reject)))

    with connect(on_reject=on_reject) as acker, acker.execute(headers, component="split"):
        raise Reject("no such card")
    assert told == [("split", "no such card")]
    assert outcome(service) is Outcome.ACKED


def test_an_on_reject_that_raises_leaves_the_tuple_open(connect, service, headers):
    with (
        connect(on_reject=lambda *_: 1 / 0) as acker,
        pytest.raises(ZeroDivisionError),
        acker.execute(headers, component="split"),
    ):
        raise Reject("no such card")
    assert outcome(service) is None


@pytest.mark.parametrize("on_error", ["fail", "redeliver"])
def test_a_retry_fails_the_tree_and_goes_no_further(acker, service, headers, on_error):
    with acker.execute(headers, component="split", on_error=on_error):
        raise Retry("card service timed out")
    assert outcome(service) is Outcome.FAILED
    assert service.bodies("fail")[0]["reason"] == "card service timed out"


def test_a_verdict_on_a_tuple_that_the_block_has_ended_goes_no_further_either(acker, service, headers):
    for verdict in (Retry, Reject):
        with acker.execute(headers, component="split") as tuple_:
            acker.fail(tuple_)
            raise verdict
    assert outcome(service) is Outcome.FAILED
    assert [len(service.writes(verb)) for verb in ("ack", "fail")] == [0, 2]


def test_a_message_without_the_header_is_not_tracked(acker, service):
    with acker.execute({}, component="split") as tuple_:
        assert tuple_.anchor("x").headers() == {}
    with pytest.raises(ValueError, match="no"), acker.execute({}, component="split"):
        raise ValueError("no")
    assert service.requests == []


def test_a_wrong_header_is_told_before_the_block(acker):
    with pytest.raises(WrongHeader), acker.execute({"Acker-Anchors": "nonsense"}, component="split"):
        pytest.fail("the block was entered")


def test_a_component_must_be_a_name(acker):
    with pytest.raises(Misuse, match="component"):
        acker.tuple({}, component="a b")


def test_on_error_must_be_one_of_its_words(acker, headers):
    with pytest.raises(Misuse, match="on_error"), acker.execute(headers, component="split", on_error="ignore"):
        pytest.fail("the block was entered")


def test_a_block_that_has_ended_its_tuple_itself_is_left_in_peace(acker, service, headers):
    with acker.execute(headers, component="split") as tuple_:
        acker.fail(tuple_, reason="seen")
    assert [request.url.path.rpartition("/")[2] for request in service.writes()] == ["init", "fail"]


def test_a_block_that_raises_after_its_ack_fails_nothing(acker, service, headers):
    with pytest.raises(ValueError, match="late"), acker.execute(headers, component="split") as tuple_:
        raise ValueError("late", acker.ack(tuple_))
    assert service.writes("fail") == []


def test_by_hand_a_join_completes_both_trees(acker, service):
    spout = acker.spout("orders", shared=True)
    tuples = []
    for message_id in ("1", "2"):
        with spout.emit(message_id=message_id) as root:
            tuples.append(acker.tuple(root.anchor("join").headers(), component="join"))
    child = acker.anchor(*tuples, name="pair")
    assert [acker.ack(tuple_) for tuple_ in tuples] == [PENDING, PENDING]
    assert acker.ack(acker.tuple(child.headers(), component="store")) == ACKED * 2
    assert {state.outcome for state in service.roots.values()} == {Outcome.ACKED}


def test_the_acks_of_one_tuple_travel_in_one_request(acker, service):
    listed = "00000000000000aa-0000000000000001,00000000000000ab-0000000000000002"
    acker.ack(acker.tuple({"Acker-Anchors": f"00 default {listed}"}, component="join"))
    assert len(service.requests) == 1
    assert [op["edge_id"][-1] for op in service.bodies("batch")[0]["ops"]] == ["1", "2"]


def test_resetting_the_timeout_gives_the_root_its_time_again(acker, service, time, headers):
    tuple_ = acker.tuple(headers, component="split")
    time.sleep(20)
    assert acker.reset_timeout(tuple_) == PENDING
    time.sleep(20)
    assert list(acker.spout("orders", shared=True).completions(timeout_s=0)) == []
    assert acker.ack(tuple_) == ACKED


def test_a_tuple_acked_twice_is_told_by_name_and_sent_once(acker, service, headers):
    tuple_ = acker.tuple(headers, component="split")
    acker.ack(tuple_)
    with pytest.raises(TupleDone, match="tuple of 'split'"):
        acker.ack(tuple_)
    assert len(service.writes("ack")) == 1


def test_an_ack_of_unknown_fate_cannot_be_sent_anew_under_another_key(acker, service, headers):
    tuple_ = acker.tuple(headers, component="split")
    service.faults += [httpx.ConnectError("refused")] * 1_000
    with pytest.raises(Unreachable):
        acker.ack(tuple_)
    with pytest.raises(TupleDone):
        acker.ack(tuple_)
