"""Supervises a run: starts everything, kills by plan, locks the database, and stops when all orders are done."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.credit_card.plan import Guarantee, Killing, Plan, choose_killings
from examples.credit_card.screen import Screen
from examples.credit_card.workers import Workers
from examples.support.cards import read_answers, read_charges
from examples.support.notices import read_notices
from examples.support.orders import Order, publish
from examples.support.processes import Processes
from examples.support.statuses import Status, Statuses, away

EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run."""

    statuses: dict[str, Status]
    times_set: dict[str, int]
    charges: dict[str, int]
    answers: dict[str, int]
    notices: dict[str, dict[str, int]]
    killed: list[str]
    crash_points: list[str]
    left: dict[str, int]
    seconds: float


class Supervisor:
    """Runs the orders through the workers."""

    def __init__(self, plan: Plan, workers: Workers, screen: Screen) -> None:
        self._plan = plan
        self._workers = workers
        self._screen = screen
        self._killings = choose_killings(plan)
        self._away_at = plan.orders // 4 if plan.away_s else plan.orders + 1
        self._until = time.monotonic() + plan.within_s
        self._since = time.monotonic()

    def run(self, orders: list[Order]) -> Outcome:
        """Run until every order is settled, or without acking until none waits. Raises ``TimeoutError``."""
        task = self._workers.task
        publish(task.broker, task.orders, orders)
        self._workers.start_all()
        self._wait(self._all_are_done)
        self._drain()
        return self._outcome()

    def _all_are_done(self) -> bool:
        """Check the progress, and cause the failures that are due."""
        done = len(read_notices(self._workers.task.notices))
        self._screen.show(
            done=done, waiting=self._workers.ready(self._workers.task.orders), killed=len(self._workers.killed)
        )
        while self._killings and self._killings[0].done <= done:
            self._kill(self._killings.pop(0))
        if self._away_at <= done:
            self._take_database_away()
        if self._plan.guarantee is Guarantee.AT_MOST_ONCE:
            return self._nothing_waits()
        return done == self._plan.orders and not self._killings

    def _nothing_waits(self) -> bool:
        task = self._workers.task
        return not any(self._workers.ready(queue) for queue in (task.orders, task.authorise, task.notify))

    def _kill(self, killing: Killing) -> None:
        self._screen.log(f"{killing.worker} is killed with SIGKILL, after {killing.done} orders")
        self._workers.kill(killing.worker)
        self._workers.replace()

    def _take_database_away(self) -> None:
        self._away_at = self._plan.orders + 1
        self._screen.log(f"the database is away for {self._plan.away_s:.0f} s")
        with away(Path(self._workers.task.statuses)):
            time.sleep(self._plan.away_s)
        self._screen.log("the database is back")

    def _drain(self) -> None:
        """Stop one kind of worker after the other, each when its queue is empty; start it again if its queue fills."""
        task = self._workers.task
        for kind, queue in (("spout", task.orders), ("authorise", task.authorise), ("notify", task.notify)):
            self._empty(kind, queue)
            while self._workers.ready(queue):
                self._workers.start("spout" if kind == "spout" else f"{kind}-1")
                self._empty(kind, queue)

    def _empty(self, kind: str, queue: str) -> None:
        self._wait(lambda: not self._workers.ready(queue))
        self._workers.end(kind)

    def _wait(self, ended: Callable[[], bool]) -> None:
        while not ended():
            if time.monotonic() > self._until:
                raise TimeoutError(f"the run did not end within {self._plan.within_s} s")
            for worker in self._workers.replace():
                self._screen.log(f"{worker} was killed and is replaced")
            time.sleep(EVERY_S)

    def _outcome(self) -> Outcome:
        task = self._workers.task
        statuses = Statuses(Path(task.statuses))
        return Outcome(
            statuses=statuses.all(),
            times_set=dict(statuses.times_set()),
            charges=read_charges(task.cards),
            answers=read_answers(task.cards),
            notices=read_notices(task.notices),
            killed=list(self._workers.killed),
            crash_points=sorted(mark.name.partition("-")[2] for mark in Path(task.folder).glob("crashed-*")),
            left={queue: self._workers.ready(queue) for queue in (task.orders, task.authorise, task.notify)},
            seconds=time.monotonic() - self._since,
        )


def run_orders(plan: Plan, orders: list[Order], processes: Processes, broker: str, screen: Screen) -> Outcome:
    """Run orders through workers of their own. Raises `Died` and ``TimeoutError``."""
    workers = Workers(plan, processes, broker)
    try:
        return Supervisor(plan, workers, screen).run(orders)
    finally:
        workers.close()
