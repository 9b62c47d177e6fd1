"""Tests what the apply functions send, and how their replies are decoded."""

from acker_service.redis import functions
from acker_service.redis.functions.apply import (
    FIND,
    REGISTER,
    UNLIMITED,
    Applied,
    ApplyLimits,
    FreeSlots,
    SpoutCheck,
    SpoutsNeeded,
    encode_free_slots,
)


def test_a_request_that_the_shard_knew_comes_back_as_replayed() -> None:
    call = functions.apply.apply(b"", b"", ApplyLimits(), [])
    assert call.decode([b"", b"+pa"]).results == [Applied(codes="pa", replayed=False)]
    assert call.decode([b"", b"=pa"]).results == [Applied(codes="pa", replayed=True)]


def test_limits_are_packed_as_the_library_reads_them() -> None:
    assert ApplyLimits().packed.hex() == "00ffffffff" + 3 * "0000010000000000"
    limits = ApplyLimits(
        max_early=250_000,
        max_early_bytes=65_536,
        max_remembered=131_072,
        max_remembered_if_full=4_096,
        spouts=SpoutCheck.ONLY,
    )
    assert limits.packed.hex() == "020003d090" + "0000000000010000" + "0000000000020000" + "0000000000001000"


def test_a_request_that_needs_spout_tasks_says_for_which_operations() -> None:
    [needed] = functions.apply.apply(b"", b"", ApplyLimits(), []).decode([b"", b"?.?!?"]).results
    assert needed == SpoutsNeeded(marks=".?!?")
    assert (needed.marked(REGISTER, [8, 5, 7, 6]), needed.marked(FIND, [8, 5, 7, 6])) == ([5, 6], [7])


def test_free_slots_are_packed_as_the_library_reads_them() -> None:
    spouts = [FreeSlots(spout_index=7, slots=3), FreeSlots(spout_index=2**32 - 1, slots=UNLIMITED)]
    assert encode_free_slots(spouts).hex() == "0000000700000003ffffffff40000000"
    assert encode_free_slots([FreeSlots(spout_index=1, slots=-2)]).hex() == "00000001fffffffe"
    assert encode_free_slots([]) == b""


def test_a_full_mailbox_is_not_the_same_as_no_slots() -> None:
    full, none = FreeSlots(spout_index=1, slots=5, mailbox_full=True), FreeSlots(spout_index=1, slots=0)
    assert encode_free_slots([full]).hex() == "0000000180000000"
    assert encode_free_slots([none]).hex() == "0000000100000000"
