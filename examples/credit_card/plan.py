"""The options of a run, and which process is killed when."""

import enum
import random
from dataclasses import dataclass

from examples.support.orders import DECLINED_EVERY, INVALID_EVERY


class Guarantee(enum.StrEnum):
    """The one setting: what the pipeline does to keep an order, and to charge it once."""

    AT_MOST_ONCE = "at-most-once"
    """No acking: a delivery is acked when it is taken."""

    AT_LEAST_ONCE = "at-least-once"
    """Acking: an order comes again until its tree is done, and each time it is charged."""

    EFFECTIVELY_ONCE = "effectively-once"
    """Acking and idempotent work: the status is looked up before the charge, one transaction for one order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as the command line asks for it."""

    guarantee: Guarantee
    orders: int
    kills: int
    fails: float
    hangs: float
    away_s: float
    authorisers: int
    max_pending: int
    message_timeout_ms: int
    within_s: float
    seed: int
    broker: str | None

    def check(self) -> None:
        """Raise ``ValueError`` if this plan cannot be run."""
        if min(self.orders, self.authorisers, self.max_pending, self.message_timeout_ms, self.within_s) <= 0:
            raise ValueError("numbers of orders, workers and milliseconds have to be more than 0")
        if min(self.kills, self.fails, self.hangs, self.away_s) < 0 or self.fails + self.hangs >= 1:
            raise ValueError("kills, shares and seconds must not be negative, and some charges have to succeed")

    @property
    def workers(self) -> list[str]:
        """All processes but the outside world, the spout first."""
        return ["spout", *(f"authorise-{number}" for number in range(1, self.authorisers + 1)), "notify-1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """A process to kill once ``done`` orders are done."""

    done: int
    worker: str


def choose_killings(plan: Plan) -> list[Killing]:
    """Choose who is killed and when: each worker in turn, the spout first, in the first half of the orders.

    By orders done and not by time, so that a slow machine sees what a fast one does.
    """
    chance = random.Random(plan.seed)
    done = sorted(chance.sample(range(1, max(plan.orders // 2, plan.kills) + 1), plan.kills))
    workers = plan.workers
    return [Killing(done=at, worker=workers[turn % len(workers)]) for turn, at in enumerate(done)]


def choose_crash_points(plan: Plan) -> dict[str, str]:
    """Choose two orders at which an authoriser kills itself, each at one of the two worst moments."""
    if not plan.kills:
        return {}
    ordinary = [n for n in range(1, plan.orders // 2 + 1) if n % DECLINED_EVERY and n % INVALID_EVERY != 1]
    if len(ordinary) < 2:
        return {}
    charged, settled = random.Random(plan.seed).sample(ordinary, 2)
    return {f"order-{charged:05d}": "charged", f"order-{settled:05d}": "settled"}
