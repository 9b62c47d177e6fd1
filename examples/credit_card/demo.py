"""Runs the demo: starts a broker unless one is named, runs the orders, prints the proof, and removes everything."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pika.exceptions import AMQPConnectionError
from rich.console import Console

from examples.credit_card.plan import Plan
from examples.credit_card.proof import count, prove
from examples.credit_card.screen import Screen
from examples.credit_card.supervisor import Outcome, run_orders
from examples.support.broker import NoBroker, running_broker
from examples.support.orders import Order, make_orders
from examples.support.processes import Died, processes_in
from examples.support.statuses import Status

PROVEN, FAILED = 0, 1


def run_demo(plan: Plan) -> int:
    """Run the demo, and return its exit code: 0 if what the guarantee promises was proven."""
    screen = Screen(Console(highlight=False, soft_wrap=True), orders=plan.orders)
    orders = make_orders(plan.orders, seed=plan.seed)
    try:
        outcome = _run(plan, orders, screen)
    except (NoBroker, Died, TimeoutError) as error:
        screen.log(f"{type(error).__name__}: {error}")
        return FAILED
    except AMQPConnectionError:
        screen.log(f"NoBroker: no RabbitMQ answers at {plan.broker}")
        return FAILED
    return _judge(plan, orders, outcome, screen)


def _run(plan: Plan, orders: list[Order], screen: Screen) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="acker-cards-") as name, _broker(plan, Path(name)) as broker:
        screen.log(f"{plan.orders} orders, {plan.guarantee}")
        with processes_in(Path(name) / "run") as processes:
            return run_orders(plan, orders, processes, broker, screen)


@contextlib.contextmanager
def _broker(plan: Plan, folder: Path) -> Iterator[str]:
    if plan.broker:
        yield plan.broker
        return
    with running_broker(folder / "rabbitmq") as broker:
        yield broker.url


def _judge(plan: Plan, orders: list[Order], outcome: Outcome, screen: Screen) -> int:
    counted = count(orders, outcome)
    ended = {status.value: sum(found is status for found in outcome.statuses.values()) for status in Status}
    losses = {
        "lost": counted.lost,
        "charged twice": counted.charged_twice,
        "status set twice": counted.status_set_twice,
        "notified more than once": counted.notified_again,
        "processes killed": len(outcome.killed),
    }
    screen.table(f"{plan.orders} orders, {plan.guarantee}, {outcome.seconds:.0f} s", ended | losses)
    screen.table("answers of the card service", dict(sorted(outcome.answers.items())))
    claims = prove(plan, orders, outcome)
    for claim in claims:
        screen.claim(claim.says, holds=claim.holds)
    return PROVEN if all(claim.holds for claim in claims) else FAILED
