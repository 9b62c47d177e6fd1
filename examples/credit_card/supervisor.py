"""The supervisor of a run: starts all, kills by plan, takes the database away, and stops when all is settled."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.credit_card.crew import Crew
from examples.credit_card.plan import Guarantee, Killing, Plan, choose_killings
from examples.credit_card.screen import Screen
from examples.stage.cards import read_answers, read_charges
from examples.stage.notices import read_notices
from examples.stage.orders import Order, publish
from examples.stage.processes import Processes
from examples.stage.statuses import Status, Statuses, away

EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run leaves behind."""

    statuses: dict[str, Status]
    times_set: dict[str, int]
    charges: dict[str, int]
    answers: dict[str, int]
    notices: dict[str, dict[str, int]]
    fallen: list[str]
    moments: list[str]
    left: dict[str, int]
    seconds: float


class Supervisor:
    """Runs the orders through the crew."""

    def __init__(self, plan: Plan, crew: Crew, screen: Screen) -> None:
        self._plan, self._crew, self._screen = plan, crew, screen
        self._killings = choose_killings(plan)
        self._away_at = plan.orders // 4 if plan.away_s else plan.orders + 1
        self._until = time.monotonic() + plan.within_s
        self._since = time.monotonic()

    def run(self, orders: list[Order]) -> Outcome:
        """Run until every order is settled, or without acking until none waits. Raises ``TimeoutError``."""
        task = self._crew.task
        publish(task.broker, task.orders, orders)
        self._crew.start_all()
        self._wait(self._all_are_done)
        self._drain()
        return self._outcome()

    def _all_are_done(self) -> bool:
        """Look how far it is, and let happen what is to happen then."""
        done = len(read_notices(self._crew.task.notices))
        self._screen.show(done=done, waiting=self._crew.ready(self._crew.task.orders), fallen=len(self._crew.fallen))
        while self._killings and self._killings[0].done <= done:
            self._kill(self._killings.pop(0))
        if self._away_at <= done:
            self._take_database_away()
        if self._plan.guarantee is Guarantee.AT_MOST_ONCE:
            return self._nothing_waits()
        return done == self._plan.orders and not self._killings

    def _nothing_waits(self) -> bool:
        task = self._crew.task
        return not any(self._crew.ready(queue) for queue in (task.orders, task.authorise, task.notify))

    def _kill(self, killing: Killing) -> None:
        self._screen.tell(f"{killing.worker} is killed with SIGKILL, after {killing.done} orders")
        self._crew.kill(killing.worker)
        self._crew.replace()

    def _take_database_away(self) -> None:
        self._away_at = self._plan.orders + 1
        self._screen.tell(f"the database is away for {self._plan.away_s:.0f} s")
        with away(Path(self._crew.task.statuses)):
            time.sleep(self._plan.away_s)
        self._screen.tell("the database is back")

    def _drain(self) -> None:
        """Stop one kind of worker after the other, each when nothing waits for it; who is needed again is started."""
        task = self._crew.task
        for kind, queue in (("spout", task.orders), ("authorise", task.authorise), ("notify", task.notify)):
            self._empty(kind, queue)
            while self._crew.ready(queue):
                self._crew.start("spout" if kind == "spout" else f"{kind}-1")
                self._empty(kind, queue)

    def _empty(self, kind: str, queue: str) -> None:
        self._wait(lambda: not self._crew.ready(queue))
        self._crew.end(kind)

    def _wait(self, ended: Callable[[], bool]) -> None:
        while not ended():
            if time.monotonic() > self._until:
                raise TimeoutError(f"the run did not end within {self._plan.within_s} s")
            for worker in self._crew.replace():
                self._screen.tell(f"{worker} has fallen and was replaced")
            time.sleep(EVERY_S)

    def _outcome(self) -> Outcome:
        task = self._crew.task
        statuses = Statuses(Path(task.statuses))
        return Outcome(
            statuses=statuses.all(),
            times_set=dict(statuses.times_set()),
            charges=read_charges(task.cards),
            answers=read_answers(task.cards),
            notices=read_notices(task.notices),
            fallen=list(self._crew.fallen),
            moments=sorted(mark.name.partition("-")[2] for mark in Path(task.folder).glob("fallen-*")),
            left={queue: self._crew.ready(queue) for queue in (task.orders, task.authorise, task.notify)},
            seconds=time.monotonic() - self._since,
        )


def run_orders(plan: Plan, orders: list[Order], processes: Processes, broker: str, screen: Screen) -> Outcome:
    """Run orders through a crew of their own. Raises `Died` and ``TimeoutError``."""
    crew = Crew(plan, processes, broker)
    try:
        return Supervisor(plan, crew, screen).run(orders)
    finally:
        crew.close()
