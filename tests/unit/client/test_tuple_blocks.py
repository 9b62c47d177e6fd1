"""Tests a bolt, with the block of its tuple and without."""

import asyncio

import httpx
import pytest
from acker_client import DropTuple, FailTuple, InvalidHeader, OperationState, RetriesExhausted, TupleClosed, UsageError
from acker_protocol.operations import Outcome
from acker_protocol.states import Finished

PENDING, ACKED = [OperationState.PENDING], [OperationState.ACKED]


@pytest.fixture
def headers(acker):
    """A message of one root, on its way to one consumer."""
    with acker.shared_spout("orders").emit(message_id="42") as root:
        return root.headers("split")


def outcome(service) -> Outcome | None:
    [state] = service.roots.values()
    return state.outcome if isinstance(state, Finished) else None


def test_a_tree_is_acked_when_its_last_tuple_is(acker, service, headers):
    with acker.receive(headers, component="split") as tup:
        children = [tup.headers(str(index)) for index in range(3)]
    for child in children:
        assert outcome(service) is None
        with acker.receive(child, component="count"):
            pass
    assert outcome(service) is Outcome.ACKED


def test_the_ack_names_its_edge_and_its_component(acker, service, headers):
    with acker.receive(headers, component="split"):
        pass
    [ack] = service.bodies("ack")
    assert (ack["edge_id"], ack["component"]) == (headers["Acker-Anchors"][-16:], "split")


def test_an_exception_fails_the_tree_with_its_text(acker, service, headers):
    with pytest.raises(ValueError, match="no such word"), acker.receive(headers, component="split"):
        raise ValueError("no such word")
    assert outcome(service) is Outcome.FAILED
    assert [(fail["reason"], fail["component"]) for fail in service.bodies("fail")] == [("no such word", "split")]
    assert service.writes("ack") == []


def test_an_exception_without_a_text_fails_with_its_name(acker, service, headers):
    with pytest.raises(ZeroDivisionError), acker.receive(headers, component="split"):
        raise ZeroDivisionError
    assert service.bodies("fail")[0]["reason"] == "ZeroDivisionError"


def test_an_exception_left_open_sends_nothing_and_the_re_run_completes_the_tree(acker, service, headers):
    with pytest.raises(ValueError, match="no"), acker.receive(headers, component="split", on_error="leave_open"):
        raise ValueError("no")
    assert len(service.writes()) == 1
    with acker.receive(headers, component="split", on_error="leave_open"):
        pass
    assert outcome(service) is Outcome.ACKED


def test_a_tuple_left_open_can_be_failed_when_the_queue_gives_up(acker, service, headers):
    held = []
    with pytest.raises(ValueError, match="no"), acker.receive(headers, component="split", on_error="leave_open") as one:
        raise ValueError("no", held.append(one))
    acker.fail(held[0], reason="given up")
    assert outcome(service) is Outcome.FAILED


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_the_end_of_the_program_says_nothing_of_the_tuple(acker, service, headers, error):
    with pytest.raises(error), acker.receive(headers, component="split"):
        raise error
    assert len(service.writes()) == 1


def test_a_dropped_tuple_is_logged_with_root_and_reason_counted_and_acked_and_goes_no_further(
    acker, service, headers, caplog
):
    with acker.receive(headers, component="split"):
        raise DropTuple("no such card")
    assert outcome(service) is Outcome.ACKED
    assert acker.stats().dropped_tuples == 1
    [record] = caplog.records
    assert headers["Acker-Anchors"].split(" ")[2] in record.message
    assert "no such card" in record.message


def test_on_drop_gets_the_tuple_and_the_reason_before_the_ack(connect, service, headers):
    told = []

    def on_drop(tup, error):
        assert not tup.closed
        told.append((tup.component, str(error)))

    with connect(on_drop=on_drop) as acker, acker.receive(headers, component="split"):
        raise DropTuple("no such card")
    assert told == [("split", "no such card")]
    assert outcome(service) is Outcome.ACKED


def test_an_on_drop_that_raises_leaves_the_tuple_open(connect, service, headers):
    with (
        connect(on_drop=lambda *_: 1 / 0) as acker,
        pytest.raises(ZeroDivisionError),
        acker.receive(headers, component="split"),
    ):
        raise DropTuple("no such card")
    assert outcome(service) is None


@pytest.mark.parametrize("on_error", ["fail", "leave_open"])
def test_fail_tuple_fails_the_tree_and_goes_no_further(acker, service, headers, on_error):
    with acker.receive(headers, component="split", on_error=on_error):
        raise FailTuple("card service timed out")
    assert outcome(service) is Outcome.FAILED
    assert service.bodies("fail")[0]["reason"] == "card service timed out"


def test_a_signal_for_a_tuple_that_the_block_has_ended_goes_no_further_either(acker, service, headers):
    for signal in (FailTuple, DropTuple):
        with acker.receive(headers, component="split") as tup:
            acker.fail(tup)
            raise signal
    assert outcome(service) is Outcome.FAILED
    assert [len(service.writes(verb)) for verb in ("ack", "fail")] == [0, 2]


def test_a_message_without_the_header_is_not_tracked(acker, service):
    with acker.receive({}, component="split") as tup:
        assert tup.headers("x") == {}
    with pytest.raises(ValueError, match="no"), acker.receive({}, component="split"):
        raise ValueError("no")
    assert service.requests == []


def test_a_invalid_header_is_raised_before_the_block(acker):
    with pytest.raises(InvalidHeader), acker.receive({"Acker-Anchors": "nonsense"}, component="split"):
        pytest.fail("the block was entered")


def test_a_component_must_be_a_name(acker):
    with pytest.raises(UsageError, match="component"):
        acker.receive({}, component="a b")


def test_on_error_must_be_one_of_its_words(acker, headers):
    with pytest.raises(UsageError, match="on_error"), acker.receive(headers, component="split", on_error="ignore"):
        pytest.fail("the block was entered")


def test_a_block_that_has_ended_its_tuple_itself_is_left_alone(acker, service, headers):
    with acker.receive(headers, component="split") as tup:
        acker.fail(tup, reason="seen")
    assert [request.url.path.rpartition("/")[2] for request in service.writes()] == ["init", "fail"]


def test_a_block_that_raises_after_its_ack_fails_nothing(acker, service, headers):
    with pytest.raises(ValueError, match="late"), acker.receive(headers, component="split") as tup:
        raise ValueError("late", acker.ack(tup))
    assert service.writes("fail") == []


def test_a_join_completes_both_trees(acker, service):
    spout = acker.shared_spout("orders")
    tuples = []
    for message_id in ("1", "2"):
        with spout.emit(message_id=message_id) as root:
            tuples.append(acker.receive(root.headers("join"), component="join"))
    child = acker.anchor(*tuples, key="pair")
    assert [acker.ack(tup) for tup in tuples] == [PENDING, PENDING]
    assert acker.ack(acker.receive(child.headers(), component="store")) == ACKED * 2
    assert {state.outcome for state in service.roots.values()} == {Outcome.ACKED}


def test_the_acks_of_one_tuple_travel_in_one_request(acker, service):
    listed = "00000000000000aa-0000000000000001,00000000000000ab-0000000000000002"
    acker.ack(acker.receive({"Acker-Anchors": f"00 default {listed}"}, component="join"))
    assert len(service.requests) == 1
    assert [op["edge_id"][-1] for op in service.bodies("batch")[0]["ops"]] == ["1", "2"]


def test_resetting_the_timeout_gives_the_root_its_time_again(acker, service, time, headers):
    tup = acker.receive(headers, component="split")
    time.sleep(20)
    assert acker.reset_timeout(tup) == PENDING
    time.sleep(20)
    assert list(acker.shared_spout("orders").completions(until=0)) == []
    assert acker.ack(tup) == ACKED


def test_a_tuple_acked_twice_is_named_and_sent_once(acker, service, headers):
    tup = acker.receive(headers, component="split")
    acker.ack(tup)
    with pytest.raises(TupleClosed, match="tuple of 'split'"):
        acker.ack(tup)
    assert len(service.writes("ack")) == 1


def test_an_ack_of_unknown_outcome_cannot_be_sent_again_under_another_key(acker, service, headers):
    tup = acker.receive(headers, component="split")
    service.faults += [httpx.ConnectError("refused")] * 1_000
    with pytest.raises(RetriesExhausted):
        acker.ack(tup)
    with pytest.raises(TupleClosed):
        acker.ack(tup)
