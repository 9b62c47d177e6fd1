"""Tests when posts are tried again."""

import pytest
from acker_service.delivery.schedule import DEFAULT, Schedule, read_schedule
from hypothesis import given
from hypothesis import strategies as st


def test_the_schedule_is_by_default_as_the_contract_says():
    hours = 3_600
    assert DEFAULT.delays_s == (1, 5, 30, 120, 600, 1_800, 2 * hours, 5 * hours, 10 * hours, 10 * hours)
    assert DEFAULT.tries == 11


def test_each_try_but_the_last_is_followed_by_its_delay():
    schedule = Schedule(delays_s=(1, 10))
    assert [schedule.delay_s(tried, draw=0.5) for tried in (1, 2, 3, 4)] == [1, 10, None, None]


@given(st.integers(1, 10), st.floats(0, 1))
def test_a_delay_is_longer_or_shorter_by_a_fifth_at_most(tried, draw):
    delay, exact = DEFAULT.delay_s(tried, draw=draw), DEFAULT.delays_s[tried - 1]
    assert delay == pytest.approx(exact, rel=0.2000001)


def test_a_draw_from_end_to_end_uses_the_whole_fifth_both_ways():
    assert [DEFAULT.delay_s(3, draw=draw) for draw in (0, 0.5, 1)] == pytest.approx([24, 30, 36])


def test_what_the_receiver_asks_for_lengthens_a_delay_and_never_shortens_it():
    assert DEFAULT.delay_s(2, draw=0.5, at_least_s=60) == 60
    assert DEFAULT.delay_s(2, draw=0.5, at_least_s=0) == 5
    assert DEFAULT.delay_s(11, draw=0.5, at_least_s=60) is None


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("1", (1,)),
        ("1,5,30", (1, 5, 30)),
        (" 0.5 , 2.25 ", (0.5, 2.25)),
        ("604800", (604_800,)),
        (",".join(["1"] * 100), (1,) * 100),
        (",".join(str(delay) for delay in DEFAULT.delays_s), DEFAULT.delays_s),
    ],
)
def test_a_schedule_is_read_from_a_setting(text, delays):
    assert read_schedule(text) == Schedule(delays_s=delays)
    assert read_schedule(text).tries == len(delays) + 1


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "1,,2", "0", "0.000", "-1", "1e3", "nan", "inf", "1 2", "1;2", "٣", "604801", "1.0001", "1s"],
)
def test_another_text_is_no_schedule(text):
    with pytest.raises(ValueError, match=r"seconds above 0, up to 604800, and commas: 1,5,30"):
        read_schedule(text)


def test_a_schedule_without_end_is_refused():
    with pytest.raises(ValueError, match="at most 100"):
        read_schedule(",".join(["1"] * 101))
