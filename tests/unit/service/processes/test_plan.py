"""Tests which processes run, how the limits are divided, and when a process is started again."""

import pytest
from acker_service.app import load_limits
from acker_service.processes.plan import SHARED, describe_end, part_of, plan_processes, restart_delay
from acker_service.settings import Role, Settings

URL = "redis://store:6379"


@pytest.mark.parametrize(("role", "names"), [("all", ["api-1", "api-2", "worker"]), ("api", ["api-1", "api-2"])])
def test_a_worker_runs_beside_the_api_processes_unless_the_role_is_api(role: str, names: list[str]) -> None:
    plans = plan_processes(Settings(processes=2, role=role, redis_url=URL))
    assert [plan.name for plan in plans] == names
    assert [plan.serves for plan in plans] == [name.startswith("api") for name in names]


@pytest.mark.parametrize("name", SHARED)
def test_the_parts_of_a_limit_are_the_limit(name: str) -> None:
    settings = Settings(processes=3, max_body_bytes=1_024, **{name: 1_000_000})
    plans = [plan for plan in plan_processes(settings) if plan.serves]
    parts = [getattr(load_limits(plan.apply(settings)), name) for plan in plans]
    assert sum(parts) == 1_000_000
    assert max(parts) - min(parts) == 1


def test_the_largest_body_fits_each_process() -> None:
    settings = Settings(processes=4)
    [plan, *_] = plan_processes(settings.model_copy(update={"max_in_flight_bytes": 4_194_304}))
    assert load_limits(plan.apply(settings)).max_in_flight_bytes == settings.max_body_bytes


def test_a_process_has_its_role_and_all_other_settings_as_they_are() -> None:
    settings = Settings(processes=2, tick_ms=100, port=9_000)
    worker = plan_processes(settings)[-1].apply(settings)
    assert worker == settings.model_copy(update={"role": Role.WORKER})


def test_the_parts_of_a_total_differ_by_one_at_most() -> None:
    assert [part_of(11, index, 3) for index in range(3)] == [4, 4, 3]


def test_the_delay_doubles_with_each_failure_up_to_a_limit() -> None:
    failures, delays = 0, []
    for _ in range(12):
        failures, delay = restart_delay(failures, 0.5)
        delays.append(delay)
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
    assert restart_delay(10_000, 0.5)[1] == 30


def test_a_process_that_ran_long_starts_again_without_the_delay_of_earlier_failures() -> None:
    assert restart_delay(7, 60.0) == (1, 0.1)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with exit code 0"), (3, "ended with exit code 3"), (-9, "was ended by SIGKILL"),
     (-99, "was ended by signal 99")],
)  # fmt: skip
def test_an_end_is_described(code: int, words: str) -> None:
    assert describe_end(code) == words
