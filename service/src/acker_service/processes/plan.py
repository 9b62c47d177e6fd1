"""Plans the processes of an acker: their names, roles and parts of the limits, and when one is started again."""

import signal
from dataclasses import dataclass, field

from acker_service.settings import Role, Settings

SHARED = ("max_in_flight", "max_in_flight_bytes", "max_waiting", "max_connections")
"""Limits of the whole acker, of which each API process has a part."""
FIRST_DELAY_S = 0.1
MAX_DELAY_S = 30.0
STABLE_S = 60.0
"""A process that has run so long starts again without the delay of those that ended before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A process to run: its name for the log, its role, and its parts of the limits that are shared."""

    name: str
    role: Role
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        """Whether the process serves the API, and so takes connections."""
        return self.role is Role.API

    def apply(self, settings: Settings) -> Settings:
        """Return the settings of the process, out of those of the whole acker.

        They are not checked again: the store of the supervisor is not one that the process shares with strangers.
        """
        return settings.model_copy(update={**self.limits, "role": self.role})


def plan_processes(settings: Settings) -> list[ProcessPlan]:
    """Plan the API processes, and a worker unless the role is `api`."""
    count = settings.processes
    plans = [
        ProcessPlan(
            name=f"api-{index + 1}",
            role=Role.API,
            limits={name: part_of(getattr(settings, name), index, count) for name in SHARED},
        )
        for index in range(count)
    ]
    return [*plans, ProcessPlan(name="worker", role=Role.WORKER)] if settings.role is Role.ALL else plans


def part_of(total: int, index: int, count: int) -> int:
    """Return part ``index`` of a total in ``count`` parts, which differ by one at most."""
    return total // count + (index < total % count)


def restart_delay(failures: int, ran_s: float) -> tuple[int, float]:
    """Return the failures in a row, this one included, and how many seconds to wait: twice as long after each."""
    failures = 1 if ran_s >= STABLE_S else failures + 1
    return failures, min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** min(failures - 1, 16))


def describe_end(code: int) -> str:
    """Describe how a process ended, by the exit code that `subprocess` gives."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
