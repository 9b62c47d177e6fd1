"""Tests how the metrics of several processes are added up."""

import pytest
from acker_service.metrics.metrics import Form, Metrics
from acker_service.metrics.snapshots import process_snapshot, retain_counts

from tests.support.exposition import Exposition, read


def process(*, requests: int, seconds: float, in_flight: int) -> Metrics:
    """The metrics of a process."""
    metrics = Metrics()
    metrics.set_version("1.2")
    metrics.http.requests["/livez", "GET", "200"].inc(requests)
    metrics.http.request_seconds["/livez", "GET"].observe(seconds)
    metrics.http.in_flight.set_function(lambda: in_flight)
    return metrics


def merged(*snapshots: bytes) -> Exposition:
    return read(Metrics().write(Form.TEXT, None, snapshots).decode())


ONE = process(requests=3, seconds=0.004, in_flight=2)
OTHER = process(requests=4, seconds=2.0, in_flight=5)
ROUTE = {"route": "/livez", "method": "GET"}


def test_a_process_alone_shows_the_same_with_and_without_a_snapshot() -> None:
    ONE.operations.hints.inc()

    def lines(body: bytes) -> list[str]:
        return [line for line in body.decode().splitlines() if "process_" not in line]

    for form in Form:
        assert lines(ONE.write(form, None, [ONE.snapshot()])) == lines(ONE.write(form, None))


def test_counters_histograms_and_gauges_are_added() -> None:
    sums = merged(ONE.snapshot(), OTHER.snapshot())
    assert sums.value("acker_requests_total", **ROUTE, status="200") == 7
    assert sums.value("acker_requests_in_flight") == 7
    assert sums.value("acker_request_seconds_count", **ROUTE) == 2
    assert sums.value("acker_request_seconds_sum", **ROUTE) == 2.004
    buckets = {le: sums.value("acker_request_seconds_bucket", **ROUTE, le=le) for le in ("0.0025", "0.005", "2.5")}
    assert buckets == {"0.0025": 0, "0.005": 1, "2.5": 2}


def test_a_series_that_one_process_has_is_kept() -> None:
    OTHER.http.requests["/readyz", "GET", "503"].inc()
    sums = merged(ONE.snapshot(), OTHER.snapshot())
    assert sums.value("acker_requests_total", route="/readyz", method="GET", status="503") == 1


def test_what_is_no_amount_is_not_added() -> None:
    sums = merged(ONE.snapshot(), OTHER.snapshot(), process_snapshot())
    assert sums.value("acker_build_info", version="1.2") == 1
    assert set(sums.values("python_info").values()) == {1}
    alone = merged(process_snapshot()).value("process_start_time_seconds")
    assert sums.value("process_start_time_seconds") == alone


def test_limits_of_processes_are_added_and_those_of_a_topology_are_not() -> None:
    for metrics in (ONE, OTHER):
        metrics.http.limits["in_flight"].set(10)
        metrics.http.limits["mailbox"].set(20)
    sums = merged(ONE.snapshot(), OTHER.snapshot(), process_snapshot())
    assert (sums.value("acker_limit", limit="in_flight"), sums.value("acker_limit", limit="mailbox")) == (20, 20)


@pytest.mark.parametrize("name", ["keys_file_valid", "certificate_valid"])
def test_one_process_whose_files_are_invalid_is_enough_to_show_it(name: str) -> None:
    assert merged(ONE.snapshot(), OTHER.snapshot()).value(f"acker_{name}") == 1
    invalid = Metrics()
    getattr(invalid.files, name).set(0)
    assert merged(ONE.snapshot(), invalid.snapshot()).value(f"acker_{name}") == 0


def test_what_an_ended_process_counted_stays_and_what_it_held_does_not() -> None:
    retained = retain_counts(retain_counts(ONE.snapshot()), OTHER.snapshot())
    sums = merged(ONE.snapshot(), retained)
    assert sums.value("acker_requests_total", **ROUTE, status="200") == 10
    assert sums.value("acker_request_seconds_count", **ROUTE) == 3
    assert sums.value("acker_requests_in_flight") == 2
