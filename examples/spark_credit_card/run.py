"""The run from start to end: all parts are started, two of them are killed, and what is left is held to its promise."""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pika

from examples.spark_credit_card.plan import DEDUPE_S, MESSAGE_TIMEOUT_S, QUEUE, TOPOLOGY, Places, Plan
from examples.spark_credit_card.proof import End, Story, prove
from examples.support import card_service
from examples.support.acker import count_pending, create_topology, start_acker
from examples.support.broker import Broker, running_broker
from examples.support.cards import read_charges, start_card_service
from examples.support.notices import read_notices, start_notice_service
from examples.support.orders import make_orders, publish
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.reports import Reports
from examples.support.screen import Screen
from examples.support.statuses import Away, Statuses

LOOK_S = 0.03
UNREADABLE = "no-order"
"""The message id of a message that is no order."""


def run(plan: Plan) -> int:
    """Run a plan, and return the exit code."""
    screen = Screen()
    with tempfile.TemporaryDirectory(prefix="acker-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with running_broker(folder / "rabbitmq") as broker, processes_in(folder) as processes:
            orders = make_orders(plan.orders, seed=plan.seed)
            publish(broker.url, QUEUE, orders[:1])
            _publish_no_order(broker)
            publish(broker.url, QUEUE, orders[1:])
            screen.log(f"{len(orders)} orders lie in the queue; starting Spark")
            with _pipeline(_places(plan, folder, broker, processes), processes) as pipeline:
                Supervisor(plan, pipeline, broker, screen).supervise()
                return screen.conclude(prove(orders, UNREADABLE, pipeline.story, pipeline.end(broker)))


class Pipeline:
    """The spout and the driver, what they have reported, and what they have done."""

    def __init__(self, places: Places, processes: Processes) -> None:
        self.places = places
        self._processes = processes
        self.statuses = Statuses(places.statuses)
        self.statuses.create()
        self.story = Story()
        self.spout = self.start("spout")
        self.driver = self.start("driver")
        self._reports = [Reports(child.log) for child in (self.spout, self.driver)]

    def start(self, name: str) -> Child:
        """Start one of them."""
        places = json.dumps(asdict(self.places))
        return self._processes.start_module(name, f"examples.spark_credit_card.{name}", places)

    def listen(self) -> None:
        """Take note of what they tell. Raises `Died` where one has ended by itself."""
        for child in (self.spout, self.driver):
            if not child.runs:
                raise Died(f"{child.name} ended with code {child.process.returncode}:\n{child.tail()}")
        for report in (report for reports in self._reports for report in reports.read()):
            self._note(report)

    def settled(self) -> int | None:
        """Count the orders that have a status; None where the database is busy."""
        with contextlib.suppress(Away):
            return len(self.statuses.all())
        return None

    def end(self, broker: Broker) -> End:
        """Return what is there at the end."""
        return End(
            statuses=self.statuses.all(),
            charges=read_charges(self.places.cards),
            notices=read_notices(self.places.notices),
            in_queue=broker.ready(QUEUE),
            pending=count_pending(self.places.acker, TOPOLOGY),
        )

    def _note(self, report: dict[str, object]) -> None:
        match report:
            case {"acked": str(order), "pending": int(pending)}:
                self.story.acked.add(order)
                self.story.pending = pending
            case {"of": str(order), "pending": int(pending)}:
                self.story.failed[order] += 1
                self.story.pending = pending
            case {"redelivered": str(order)}:
                self.story.redelivered[order] += 1
            case {"rejected": str()}:
                self.story.rejected.add(UNREADABLE)
            case {"pending": int(pending)}:
                self.story.pending = pending


class Supervisor:
    """Kills driver and spout when so much is done, starts them again, and ends the spout when all orders are acked."""

    def __init__(self, plan: Plan, pipeline: Pipeline, broker: Broker, screen: Screen) -> None:
        self._plan = plan
        self._pipeline = pipeline
        self._broker = broker
        self._screen = screen
        self._until = time.monotonic() + plan.within_s

    def supervise(self) -> None:
        """Go on until everything is acked and the queue is empty. Raises `Died`, ``TimeoutError``."""
        while True:
            self._until_all_is_acked()
            if self._pipeline.spout.end(within=self._plan.within_s) != 0:
                raise Died(f"the spout ended badly:\n{self._pipeline.spout.tail()}")
            if not self._broker.ready(QUEUE):
                return
            self._pipeline.spout = self._pipeline.start("spout")  # it held some that it had not emitted yet

    def _until_all_is_acked(self) -> None:
        story = self._pipeline.story
        while len(story.acked) <= self._plan.orders or story.pending:
            if time.monotonic() > self._until:
                raise TimeoutError(
                    f"not all was acked within {self._plan.within_s:.0f} s:\n{self._pipeline.driver.tail()}"
                )
            self._pipeline.listen()
            settled = self._pipeline.settled()
            if settled is not None:
                self._kill_in_time(settled)
                self._show(settled)
            time.sleep(LOOK_S)

    def _kill_in_time(self, settled: int) -> None:
        """Kill by what is done, not by the clock: the driver after a third, the spout after half of all orders."""
        story = self._pipeline.story
        if story.driver_killed_at is None and settled >= self._plan.orders // 3:
            self._pipeline.driver.kill_group()
            story.driver_killed_at = settled
            self._pipeline.driver = self._pipeline.start("driver")
            self._screen.log(f"{settled} orders are settled: the driver is killed with SIGKILL, and started again")
        if story.spout_killed_at is None and len(story.acked) >= self._plan.orders // 2:
            self._pipeline.spout.kill()
            story.spout_killed_at, story.spout_held = len(story.acked), story.pending
            self._pipeline.spout = self._pipeline.start("spout")
            self._screen.log(
                f"{len(story.acked)} orders are acked: the spout is killed with SIGKILL, and started again"
            )

    def _show(self, settled: int) -> None:
        story = self._pipeline.story
        self._screen.show(
            settled=settled,
            acked=len(story.acked),
            pending=story.pending,
            failed=story.failed.total(),
            redelivered=story.redelivered.total(),
        )


@contextlib.contextmanager
def _pipeline(places: Places, processes: Processes) -> Iterator[Pipeline]:
    create_topology(
        places.acker, TOPOLOGY, message_timeout=MESSAGE_TIMEOUT_S, dedupe_window=DEDUPE_S, retention=DEDUPE_S
    )
    pipeline = Pipeline(places, processes)
    try:
        yield pipeline
    finally:
        pipeline.driver.kill_group()


def _places(plan: Plan, folder: Path, broker: Broker, processes: Processes) -> Places:
    own = folder / "run"
    own.mkdir()
    service = card_service.Task(fails=plan.fails, hangs=plan.hangs, seed=plan.seed)
    return Places(
        acker=start_acker(processes, folder / "data"),
        broker=broker.url,
        cards=start_card_service(processes, service),
        notices=start_notice_service(processes),
        folder=str(own),
        prefetch=plan.prefetch,
        careless=plan.careless,
    )


def _publish_no_order(broker: Broker) -> None:
    with contextlib.closing(broker.connect()) as connection:
        properties = pika.BasicProperties(message_id=UNREADABLE, delivery_mode=2)
        connection.channel().basic_publish("", QUEUE, b'{"an": "order"}', properties)
