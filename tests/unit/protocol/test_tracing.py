"""Which roots are traced: a share by their ids, and those that are marked."""

import pytest
from acker_protocol.tracing import SAMPLE_RANGE, is_marked, is_sampled, mark, sample, threshold


@pytest.mark.parametrize(("share", "number"), [(0, 0), (0.25, 2**30), (1, SAMPLE_RANGE)])
def test_a_share_is_a_threshold_of_the_sample(share: float, number: int) -> None:
    assert threshold(share) == number


def test_a_sample_mixes_both_halves_of_the_id() -> None:
    assert sample(1) == 2_654_435_761
    assert sample(1 << 32) == sample(1)
    assert sample(1 << 32 | 1) == 0


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_share_of_ids_that_count_up_is_about_that_share(share: float) -> None:
    assert sum(is_sampled(root, share) for root in range(1, 100_001)) == pytest.approx(100_000 * share, rel=0.02)


def test_no_root_is_in_no_share_and_each_is_in_the_whole() -> None:
    roots = (1, 1 << 32 | 1, 2**64 - 1)
    assert [is_sampled(root, 0) for root in roots] == [False] * 3
    assert [is_sampled(root, 1) for root in roots] == [True] * 3


def test_a_marked_id_ends_with_four_zeros_and_is_not_zero() -> None:
    assert mark(0x1234_5678_9ABC_DEF0) == 0x1234_5678_9ABC_0000
    assert mark(7) == 0x1_0000
    assert is_marked(mark(7))
    assert not is_marked(0x8000)
