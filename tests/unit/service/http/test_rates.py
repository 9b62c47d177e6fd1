"""Tests how a key is held to its rate, on a clock that the test moves."""

import pytest
from acker_protocol.errors import Overloaded
from acker_service.http.keys import Key, Rate, Scope, digest_of
from acker_service.http.rates import RateExceeded, Rates, TokenBucket
from acker_service.metrics.metrics import Metrics
from hypothesis import given
from hypothesis import strategies as st


class Held:
    """Rates on a clock that stands still until the test moves it."""

    def __init__(self, *keys: Key, parts: int = 1) -> None:
        self.now = 1_000.0
        self.metrics = Metrics().http
        self.rates = Rates(self.metrics, parts=parts, clock=lambda: self.now)
        self.rates.install(keys)


def key_of(name: str = "orders", **rate: float) -> Key:
    return Key(name=name, digest=digest_of(name), scope=Scope.ACK, rate=Rate(**rate))


def admitted(held: Held, key: Key, asked: int) -> int:
    """Return how many of so many requests are admitted now."""
    count = 0
    for _ in range(asked):
        try:
            held.rates.take_request(key)
        except RateExceeded:
            continue
        count += 1
    return count


def wait_ms(held: Held, key: Key, operations: int) -> int:
    with pytest.raises(RateExceeded) as refused:
        held.rates.take_operations(key, operations)
    return int(refused.value.extra["retry_after_ms"])


def test_a_second_s_requests_are_admitted_at_once_and_then_as_many_as_time_lets() -> None:
    key = key_of(requests=10)
    held = Held(key)
    assert admitted(held, key, 30) == 10
    held.now += 0.25
    assert admitted(held, key, 30) == 2
    held.now += 3_600
    assert admitted(held, key, 30) == 10, "no more than a second's are saved"


def test_a_rate_below_one_a_second_admits_one_now_and_then() -> None:
    key = key_of(requests=0.5)
    held = Held(key)
    assert admitted(held, key, 3) == 1
    held.now += 1.9
    assert admitted(held, key, 3) == 0
    held.now += 0.2
    assert admitted(held, key, 3) == 1


def test_the_answer_says_when_to_come_again_and_then_it_is_admitted() -> None:
    key = key_of(requests=4)
    held = Held(key)
    assert admitted(held, key, 4) == 4
    with pytest.raises(RateExceeded, match="the key orders may send 4 requests a second; nothing was done") as refused:
        held.rates.take_request(key)
    assert refused.value.document() | {"detail": ""} == {
        "type": "urn:acker:problem:overloaded",
        "title": "The service is overloaded",
        "status": 429,
        "detail": "",
        "code": "overloaded",
        "retryable": True,
        "retry_after_ms": 250,
    }
    held.now += 0.25
    assert admitted(held, key, 2) == 1


def test_a_batch_larger_than_the_bucket_is_admitted_and_its_debt_is_waited_for() -> None:
    key = key_of(operations=100)
    held = Held(key)
    held.rates.take_operations(key, 10_000)
    assert wait_ms(held, key, 1) == 99_010, "9,900 of debt and one token, 100 a second"
    with pytest.raises(RateExceeded):
        held.rates.check_operations(key)
    held.now += 99.1
    held.rates.check_operations(key)
    held.rates.take_operations(key, 10_000)


def test_two_batches_that_arrive_together_leave_no_more_debt_than_one() -> None:
    """Both heads are admitted while their bodies are on the way."""
    key = key_of(operations=100)
    held = Held(key)
    held.rates.check_operations(key)
    held.rates.check_operations(key)
    held.rates.take_operations(key, 1_000)
    assert wait_ms(held, key, 1_000) == 9_010


def test_requests_and_operations_are_limited_apart() -> None:
    key = key_of(operations=1)
    held = Held(key)
    held.rates.take_operations(key, 100)
    assert admitted(held, key, 50) == 50, "reads go on"
    other = key_of("other", requests=1)
    held.rates.install([key, other])
    for _ in range(3):
        held.rates.take_operations(other, 1_000)


def test_each_process_admits_its_part() -> None:
    key = key_of(requests=10, operations=100)
    held = Held(key, parts=4)
    assert admitted(held, key, 10) == 2
    held.now += 4
    assert admitted(held, key, 10) == 2
    held.rates.take_operations(key, 125)
    assert wait_ms(held, key, 1) == 4_040


def test_what_is_refused_costs_nothing() -> None:
    key = key_of(requests=10)
    held = Held(key)
    admitted(held, key, 1_000)
    held.now += 0.1
    assert admitted(held, key, 1) == 1


def test_another_key_and_one_without_a_rate_are_not_held_back() -> None:
    key, other = key_of(requests=1), Key(name="free", digest=digest_of("free"), scope=Scope.ADMIN)
    held = Held(key, other)
    assert admitted(held, key, 10) == 1
    assert admitted(held, other, 10) == 10
    held.rates.check_operations(other)
    held.rates.take_operations(other, 10_000)


def test_a_file_that_is_read_again_gives_nothing_away() -> None:
    key = key_of(requests=10, operations=10)
    held = Held(key)
    assert admitted(held, key, 10) == 10
    held.rates.install([key_of(requests=10, operations=10)])
    assert admitted(held, key, 10) == 0
    held.rates.install([key_of(requests=20)])
    assert admitted(held, key, 30) == 20, "another rate begins anew"
    held.rates.install([])
    assert admitted(held, key, 30) == 30, "a request under way whose key was removed"


def test_refusals_are_counted_by_the_key_s_name() -> None:
    key = key_of(requests=1)
    held = Held(key, key_of("other", requests=1))
    admitted(held, key, 5)
    counted = {name: counter._value.get() for name, counter in held.metrics.rate_limited.items()}
    assert counted == {"orders": 4}


def test_a_rate_is_a_kind_of_overload_for_every_client() -> None:
    assert issubclass(RateExceeded, Overloaded)


@given(
    per_s=st.floats(min_value=0.01, max_value=10_000),
    steps=st.lists(st.tuples(st.floats(min_value=0, max_value=5), st.integers(1, 5_000)), max_size=50),
)
def test_over_any_time_no_more_is_admitted_than_the_rate_a_second_s_worth_and_one_batch(
    per_s: float, steps: list[tuple[float, int]]
) -> None:
    now, taken, largest = 0.0, 0, 0
    bucket = TokenBucket(per_s, now=now)
    for pause, count in steps:
        now += pause
        if bucket.wait_s(now) == 0:
            bucket.take(count)
            taken, largest = taken + count, max(largest, count)
    assert taken <= per_s * now + max(1.0, per_s) + largest + 1e-6


@given(per_s=st.floats(min_value=0.01, max_value=10_000), count=st.integers(1, 100_000))
def test_who_waits_as_long_as_it_is_told_is_admitted(per_s: float, count: int) -> None:
    bucket = TokenBucket(per_s, now=0.0)
    bucket.take(count)
    wait_s = bucket.wait_s(0.0)
    assert bucket.wait_s(wait_s * (1 + 1e-9) + 1e-9) == 0
