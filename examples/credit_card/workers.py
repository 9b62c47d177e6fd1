"""The processes of a run: starts services and workers, kills a worker and replaces it."""

import json
import secrets
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path

import pika

from examples.credit_card.plan import Plan, choose_crash_points
from examples.credit_card.queues import Task
from examples.support.acker import create_topology, start_acker
from examples.support.card_service import Task as CardTask
from examples.support.cards import start_card_service
from examples.support.notices import start_notice_service
from examples.support.processes import Child, Died, Processes
from examples.support.statuses import Statuses

SUDDEN = -signal.SIGKILL
END_S = 180.0


class Workers:
    """The workers of a run, each under its name; ``killed`` are those that died by SIGKILL and were replaced."""

    def __init__(self, plan: Plan, processes: Processes, broker: str) -> None:
        self._plan = plan
        self._processes = processes
        self._children: dict[str, Child] = {}
        self._connection = pika.BlockingConnection(pika.URLParameters(broker))
        self._channel = self._connection.channel()
        self.killed: list[str] = []
        self.task = _make_task(plan, processes, broker)
        self._channel.queue_declare(self.task.orders, durable=True)
        for queue in (self.task.authorise, self.task.notify):
            self._channel.queue_declare(queue)

    def close(self) -> None:
        """Take the queues away."""
        for queue in (self.task.orders, self.task.authorise, self.task.notify):
            self._channel.queue_delete(queue)
        self._connection.close()

    def ready(self, queue: str) -> int:
        """Count the messages that wait in a queue."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def start(self, worker: str) -> None:
        """Start a worker, also to replace one that is gone."""
        module = f"examples.credit_card.{worker.partition('-')[0]}"
        self._children[worker] = self._processes.start_module(worker, module, json.dumps(asdict(self.task)))

    def start_all(self) -> None:
        """Start every worker."""
        for worker in self._plan.workers:
            self.start(worker)

    def kill(self, worker: str) -> None:
        """Kill a worker with SIGKILL; `replace` starts another."""
        self._children[worker].kill()

    def replace(self) -> list[str]:
        """Replace each worker that was killed, and return their names. Raises `Died` for any other end."""
        gone = [(worker, child) for worker, child in self._children.items() if not child.runs]
        for worker, child in gone:
            if child.process.returncode != SUDDEN:
                raise Died(f"{worker} ended with code {child.process.returncode}:\n{child.tail()}")
            self.start(worker)
            self.killed.append(worker)
        return [worker for worker, _ in gone]

    def end(self, kind: str) -> None:
        """End the workers of a kind in good order: they finish what they hold."""
        chosen = [worker for worker in self._children if worker.partition("-")[0] == kind]
        for worker in chosen:
            self._children[worker].process.terminate()
        for worker in chosen:
            self._await(worker, self._children.pop(worker))

    def _await(self, worker: str, child: Child) -> None:
        """Wait for a worker that ends; it may be killed first, and its tuples wait for another worker then."""
        try:
            code = child.process.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Died(f"{worker} did not end within {END_S:.0f} s:\n{child.tail()}") from None
        if code == SUDDEN:
            self.killed.append(worker)
        elif code not in (0, -signal.SIGTERM):  # the latter is one that had not begun yet
            raise Died(f"{worker} did not end well, but with code {code}:\n{child.tail()}")


def _make_task(plan: Plan, processes: Processes, broker: str) -> Task:
    """Start the acker and the services, and return their addresses."""
    run = f"credit-card-{secrets.token_hex(4)}"
    acker = start_acker(processes, processes.folder / "data")
    create_topology(acker, run, message_timeout=plan.message_timeout_ms / 1000)
    statuses = processes.folder / "statuses.db"
    Statuses(statuses).create()
    return Task(
        broker=broker,
        acker=acker,
        topology=run,
        guarantee=plan.guarantee,
        max_pending=plan.max_pending,
        orders=f"{run}-orders",
        authorise=f"{run}-authorise",
        notify=f"{run}-notify",
        statuses=str(statuses),
        cards=start_card_service(processes, CardTask(fails=plan.fails, hangs=plan.hangs, seed=plan.seed)),
        notices=start_notice_service(processes),
        folder=str(Path(processes.folder)),
        crash_at=choose_crash_points(plan),
    )
