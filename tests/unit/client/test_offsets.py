"""Tests up to where offsets may be committed."""

from acker_client.sources.offsets import OffsetTracker
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


def tracker(start: int = 0, *, emitted: str = "", acked: str = "") -> OffsetTracker:
    """A tracker to which these offsets happened."""
    made = OffsetTracker(start)
    for offset in emitted.split():
        made.emit(int(offset))
    for offset in acked.split():
        made.ack(int(offset))
    return made


def test_there_is_nothing_to_commit_at_the_start():
    assert tracker(7).commit_position() is None


def test_the_position_is_the_next_offset_to_read():
    assert tracker(7, emitted="7", acked="7").commit_position() == 8


def test_an_offset_that_is_not_acked_holds_back_all_above_it():
    assert tracker(emitted="0 1 2 3", acked="0 2 3").commit_position() == 1
    assert tracker(emitted="0 1 2 3", acked="1 2 3").commit_position() is None


def test_acks_may_come_in_any_order():
    made = tracker(emitted="0 1 2 3", acked="3 1 2")
    assert made.commit_position() is None
    made.ack(0)
    assert made.commit_position() == 4


def test_offsets_that_never_existed_do_not_block():
    assert tracker(emitted="5 9 10 40", acked="5 9 10").commit_position() == 11


def test_a_gap_above_the_last_ack_is_not_committed():
    assert tracker(emitted="5 9", acked="5").commit_position() == 6


def test_asking_for_the_position_commits_nothing():
    made = tracker(emitted="0 1", acked="0")
    assert made.commit_position() == made.commit_position() == 1
    assert made.uncommitted == 2


def test_after_a_commit_there_is_nothing_new():
    made = tracker(emitted="0 1 2", acked="0 1")
    made.commit(2)
    assert made.commit_position() is None
    assert made.uncommitted == 1


def test_a_commit_that_lags_leaves_the_rest_to_be_committed():
    made = tracker(emitted="0 1 2", acked="0 1 2")
    made.commit(2)
    assert (made.commit_position(), made.uncommitted) == (3, 1)


def test_what_was_committed_beyond_the_acks_is_given_up():
    made = tracker(emitted="0 1 2 3", acked="3")
    made.commit(2)
    assert (made.commit_position(), made.uncommitted) == (None, 2)
    made.ack(2)
    assert made.commit_position() == 4


def test_a_commit_that_goes_back_changes_nothing():
    made = tracker(5, emitted="5 6", acked="5")
    made.commit(3)
    made.emit(4)
    assert (made.commit_position(), made.uncommitted) == (6, 2)


def test_an_offset_below_the_committed_position_changes_nothing():
    made = tracker(5, emitted="4 5", acked="4")
    assert (made.commit_position(), made.uncommitted) == (None, 1)


def test_an_offset_emitted_again_changes_nothing():
    made = tracker(emitted="0 1", acked="0 1")
    made.emit(0)
    assert (made.commit_position(), made.uncommitted) == (2, 2)


def test_an_offset_acked_again_changes_nothing():
    made = tracker(emitted="0 1", acked="0 0")
    made.commit(1)
    made.ack(0)
    assert (made.commit_position(), made.uncommitted) == (None, 1)


def test_an_ack_of_what_was_not_emitted_changes_nothing():
    made = tracker(acked="0")
    made.emit(0)
    assert (made.commit_position(), made.uncommitted) == (None, 1)


def test_an_offset_that_comes_late_holds_back_those_above_it():
    made = tracker(emitted="0 5", acked="0 5")
    assert made.commit_position() == 6
    made.emit(3)
    assert made.commit_position() == 1
    made.ack(3)
    assert made.commit_position() == 6


def test_it_holds_nothing_of_what_is_committed():
    made = tracker()
    for offset in range(10_000):
        made.emit(offset)
        made.ack(offset)
        made.commit(made.commit_position() or 0)
    assert (made._acked, list(made._done), list(made._rest)) == ({}, [], [])


class Steps(dict[int, bool]):
    """The states of offsets; counts how often one is looked at."""

    looked = 0

    def __getitem__(self, offset: int) -> bool:
        self.looked += 1
        return super().__getitem__(offset)


def test_asking_after_every_ack_looks_at_each_offset_a_few_times_only():
    made = OffsetTracker(0)
    made._acked = steps = Steps()
    for offset in range(2_000):
        made.emit(offset)
    for offset in range(2_000):
        made.ack(offset)
        made.commit_position()
    assert steps.looked < 3 * 2_000


offsets = st.integers(0, 9)


class AsTheModelSays(RuleBasedStateMachine):
    """The model: all offsets ever emitted and acked, in sets, gone through anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = OffsetTracker(3)
        self.committed = 3
        self.emitted = set[int]()
        self.acked = set[int]()

    @rule(above=st.integers(-2, 6))
    def emit(self, above: int) -> None:
        offset = self.committed + above
        self.tracker.emit(offset)
        if offset >= self.committed:
            self.emitted.add(offset)

    @rule(above=st.integers(-2, 6))
    def ack(self, above: int) -> None:
        offset = self.committed + above
        self.tracker.ack(offset)
        self.acked |= {offset} & self.emitted

    @rule(above=st.integers(-2, 2))
    def commit(self, above: int) -> None:
        position = self.committed + above
        self.tracker.commit(position)
        self.committed = max(self.committed, position)

    @precondition(lambda self: self.position() is not None)
    @rule()
    def commit_what_may_be(self) -> None:
        position = self.position()
        assert position is not None
        self.commit(position - self.committed)

    def position(self) -> int | None:
        left = {offset for offset in self.emitted if offset >= self.committed}
        below = {offset for offset in left if all(other in self.acked for other in left if other <= offset)}
        return max(below) + 1 if below else None

    @invariant()
    def tells_the_same(self) -> None:
        assert self.tracker.uncommitted == len([offset for offset in self.emitted if offset >= self.committed])
        assert self.tracker.commit_position() == self.position()


TestAsTheModelSays = AsTheModelSays.TestCase


@given(st.lists(offsets), st.lists(offsets))
def test_no_position_is_ever_above_an_offset_that_is_not_acked(emitted: list[int], acked: list[int]):
    made = tracker(emitted=" ".join(map(str, emitted)), acked=" ".join(map(str, acked)))
    position = made.commit_position()
    assert position is None or all(offset in acked for offset in emitted if offset < position)
