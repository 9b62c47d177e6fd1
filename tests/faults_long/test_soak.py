"""What a soak calls growth, and what it does not."""

from tests.faults_long.soak import LEAST_SAMPLES, Sample, grown

MIB = 1024


def samples(*, service_kib: float = 0.0, files: float = 0.0, count: int = 90) -> list[Sample]:
    """Return measurements; each is so much more than the one before."""
    return [
        Sample(
            seconds=10.0 * number,
            service_kib=int(100 * MIB + number * service_kib),
            store_kib=50 * MIB,
            store_used_kib=20 * MIB,
            service_files=int(40 + number * files),
            store_files=30,
            keys=1_000,
            operations=1_000.0 * number,
        )
        for number in range(count)
    ]


def test_what_stays_or_varies_a_little_does_not_grow() -> None:
    assert grown(samples()) == {}
    assert grown(samples(service_kib=20, files=0.1)) == {}


def test_memory_and_open_files_that_grow_are_found() -> None:
    assert grown(samples(service_kib=400)).keys() == {"service_kib"}
    assert grown(samples(files=0.5)).keys() == {"service_files"}


def test_too_short_a_time_tells_nothing_of_growth() -> None:
    assert grown(samples(files=5, count=LEAST_SAMPLES - 1)) == {}
