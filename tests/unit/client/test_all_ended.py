"""Tests roots that end when all of their edges have ended, some of them failed."""

from contextlib import nullcontext

import pytest
from acker_client import DropTuple, EndOn, FailTuple, Outcome, UsageError
from acker_client.completions import parse_webhook
from acker_client.testing import Clock, MemoryAcker
from acker_protocol.operations import Ack, Fail


def emit(spout, parts, **emission):
    """Emit a root with so many parts, and return their headers."""
    with spout.emit(message_id="import", **emission) as root:
        return [root.headers(key=f"row {part}") for part in range(parts)]


def work(acker, headers, *, failing=()):
    """Process parts, of which some fail."""
    for part, header in enumerate(headers):
        with acker.receive(header, component="load"):
            if part in failing:
                raise FailTuple(f"row {part} is broken")


def read(spout):
    return list(spout.completions(until=0))


def test_one_completion_tells_when_all_have_ended_and_how_many_failed(acker):
    spout = acker.spout("imports")
    work(acker, emit(spout, 30, end_on="all_ended"), failing={3, 7, 29})
    [done] = read(spout)
    assert (done.outcome, done.failures) == (Outcome.FAILED, 3)
    assert (done.message_id, done.reason, done.component) == ("import", "row 3 is broken", "load")


def test_a_root_of_which_nothing_failed_is_acked_and_says_so(acker):
    spout = acker.spout("imports")
    work(acker, emit(spout, 3, end_on="all_ended"))
    [done] = read(spout)
    assert (done.outcome, done.failures) == (Outcome.ACKED, 0)


def test_a_root_ends_at_its_first_fail_unless_it_says_otherwise(acker):
    spout = acker.spout("imports")
    work(acker, emit(spout, 3)[:1], failing={0})
    [done] = read(spout)
    assert (done.outcome, done.failures) == (Outcome.FAILED, None)


def test_the_topology_says_what_ends_a_root_that_does_not():
    service = MemoryAcker(clock=Clock(), end_on="all_ended")
    with service.acker(linger=0) as acker:
        spout = acker.spout("imports")
        work(acker, emit(spout, 3), failing={1})
        work(acker, emit(spout, 3, end_on="first_fail"), failing={0})
        assert [done.failures for done in read(spout)] == [1, None]


def test_a_topology_is_told_what_ends_its_roots(acker):
    acker.topologies.create("default", end_on="all_ended")
    spout = acker.spout("imports")
    work(acker, emit(spout, 2), failing={0})
    [done] = read(spout)
    assert done.failures == 1
    assert acker.topologies.create("default", message_timeout=60).end_on is EndOn.ALL_ENDED


@pytest.mark.parametrize("end_on", ["all", "", 1, True])
def test_an_end_that_is_unknown_is_refused(acker, end_on):
    with pytest.raises(UsageError, match="end_on must be 'first_fail' or 'all_ended'"):
        acker.spout("imports").emit("1", end_on=end_on)


def test_a_failed_tuple_waits_for_the_children_that_it_sent_before(acker):
    spout = acker.spout("imports")
    [header] = emit(spout, 1, end_on="all_ended")
    with acker.receive(header, component="split") as tup:
        children = [tup.headers(key=str(number)) for number in range(2)]
        tup.fail("half is missing")
    work(acker, children[:1])
    assert read(spout) == []
    work(acker, children[1:], failing={0})
    [done] = read(spout)
    assert (done.failures, done.reason) == (2, "half is missing")


def test_fails_are_never_folded_with_acks(service):
    with service.acker(linger=60) as acker:
        spout = acker.spout("imports")
        work(acker, emit(spout, 5, end_on="all_ended"), failing={2})
        acker.flush()
        assert [done.failures for done in read(spout)] == [1]
    ended = [operation for operation in service.applied if isinstance(operation, Ack | Fail)]
    assert [type(operation) for operation in ended] == [Ack, Fail, Ack]
    assert [operation.edge_id is None for operation in ended] == [True, False, True]


def test_a_batch_collects_the_fails_of_edges(acker):
    spout = acker.spout("imports")
    headers = emit(spout, 4, end_on="all_ended")
    with acker.batch():
        work(acker, headers, failing={0, 3})
    [done] = read(spout)
    assert done.failures == 2


def drop(acker, header):
    """Drop a part, after a child was made."""
    with acker.receive(header, component="load") as tup:
        child = tup.headers(key="note")
        raise DropTuple("not wanted")
    return child


@pytest.mark.parametrize("end_on", ["first_fail", "all_ended"])
def test_a_dropped_tuple_is_no_failure_and_is_counted(acker, end_on):
    spout = acker.spout("imports")
    headers = emit(spout, 3, end_on=end_on)
    children = [drop(acker, header) for header in headers[:2]]
    work(acker, headers[2:])
    assert read(spout) == []
    work(acker, children)
    [done] = read(spout)
    assert (done.outcome, done.failures or 0, done.dropped) == (Outcome.ACKED, 0, 2)


def test_a_tuple_that_the_block_has_acked_is_not_dropped(acker):
    spout = acker.spout("imports")
    [header] = emit(spout, 1)
    with acker.receive(header, component="load") as tup:
        tup.ack()
        raise DropTuple("too late")
    [done] = read(spout)
    assert (done.outcome, done.dropped) == (Outcome.ACKED, 0)


@pytest.mark.parametrize("collects", [False, True], ids=["buffered", "in a batch"])
def test_acks_of_dropped_tuples_are_never_folded(service, collects):
    with service.acker(linger=60) as acker:
        spout = acker.spout("imports")
        headers = emit(spout, 6)
        with acker.batch() if collects else nullcontext():
            work(acker, headers[:2])
            children = [drop(acker, header) for header in headers[2:4]]
            work(acker, headers[4:] + children)
        acker.flush()
        assert [done.dropped for done in read(spout)] == [2]
    acks = [operation for operation in service.applied if isinstance(operation, Ack)]
    assert [ack.dropped for ack in acks] == [False, True, True, False]
    assert [ack.edge_id is None for ack in acks] == [True, False, False, True]


def test_a_dropped_part_that_is_redelivered_counts_once_on_a_topology_that_dedupes():
    with MemoryAcker(clock=Clock()).acker(linger=0) as acker:
        spout = acker.spout("imports")
        headers = emit(spout, 2)
        work(acker, [drop(acker, headers[0]), drop(acker, headers[0]), headers[1]])
        [done] = read(spout)
        assert (done.outcome, done.dropped) == (Outcome.ACKED, 1)


def test_a_timeout_tells_how_many_failed(acker, time):
    spout = acker.spout("imports")
    work(acker, emit(spout, 3, end_on="all_ended")[:2], failing={0})
    time.advance(31)
    [done] = read(spout)
    assert (done.outcome, done.failures) == (Outcome.TIMED_OUT, 1)


def test_a_redelivered_part_counts_once_on_a_topology_that_dedupes():
    with MemoryAcker(clock=Clock()).acker(linger=0) as acker:
        spout = acker.spout("imports")
        headers = emit(spout, 2, end_on="all_ended")
        for _ in range(2):
            work(acker, headers[:1], failing={0})
        work(acker, headers)
        [done] = read(spout)
        assert (done.outcome, done.failures) == (Outcome.FAILED, 1)


def test_a_webhook_tells_how_many_failed_and_were_dropped():
    completion = (
        b'{"id": "1", "root_id": "00000000000000a1", "outcome": "failed", "message_id": null, "reason": null,'
        b'"component": null, "complete_latency_ms": 1, "at_ms": 1, "failures": 2, "dropped": 3}'
    )
    [done] = parse_webhook(b'{"type": "completion.batch", "data": {"completions": [%s]}}' % completion)
    assert (done.failures, done.dropped) == (2, 3)


@pytest.mark.anyio
async def test_a_program_of_tasks_does_likewise(async_acker):
    spout = async_acker.shared_spout("imports")
    async with spout.emit(message_id="import", end_on="all_ended") as root:
        headers = [root.headers(key=f"row {part}") for part in range(3)]
    for part, header in enumerate(headers):
        async with async_acker.receive(header, component="load"):
            if part == 1:
                raise FailTuple("broken")
    [done] = [done async for done in spout.completions(until=0)]
    assert (done.outcome, done.failures, done.reason) == (Outcome.FAILED, 1, "broken")
