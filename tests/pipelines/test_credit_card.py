"""The credit cards are run as a user runs them, with every guarantee; and the proof can fail."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from examples.credit_card.__main__ import parse
from examples.credit_card.plan import Guarantee, Plan, choose_crash_points, choose_killings
from examples.credit_card.proof import expected, prove
from examples.credit_card.supervisor import Outcome
from examples.support.broker import Broker
from examples.support.orders import make_orders
from examples.support.statuses import Status
from tests.support.pages import ROOT


def run(broker: Broker, temporary: Path, *options: str) -> str:
    """Run the example to its end, and return what it said."""
    command = [sys.executable, "-m", "examples.credit_card", "--broker", broker.url, *options]
    log = temporary / "said"
    with log.open("w") as out:
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, timeout=880, check=False)
    said = log.read_text()
    assert done.returncode == 0, said
    assert "WRONG" not in said
    return said


SMALL = ("--orders", "400", "--kills", "3", "--away-s", "3", "--within-s", "300")


def figure(said: str, name: str) -> int:
    found = re.search(rf"│ {name} +│ +(\d+)", said)
    assert found is not None, said
    return int(found[1])


@pytest.mark.timeout(900)
def test_two_thousand_orders_outlive_kills_hanging_cards_and_a_database_that_goes_away(
    broker: Broker, tmp_path: Path
) -> None:
    said = run(broker, tmp_path, "--within-s", "800")
    assert "the database is away for 10 s" in said
    assert said.count(" is killed with SIGKILL") == 8
    for claim in (
        "0 orders were lost",
        "every order, also one that was declined, ended in the status that it has to",
        "every order was given its status exactly once",
        "0 orders were charged twice",
        "the 1780 orders that were charged are those that are authorised",
        "the second system got the status of every order, and nothing else",
        r"\d+ processes were killed with SIGKILL, [2-9] times the spout",
        "one worker died between charge and status, and one between status and notice",
        "0 messages are left in RabbitMQ's queues",
    ):
        assert re.search(f"^  proven  {claim}", said, re.MULTILINE), said
    assert (figure(said, "authorised"), figure(said, "declined"), figure(said, "invalid")) == (1780, 200, 20)
    assert min(figure(said, "erred"), figure(said, "hung"), figure(said, "duplicate transaction")) > 0


@pytest.mark.timeout(400)
def test_without_acking_orders_are_lost_and_none_is_charged_twice(broker: Broker, tmp_path: Path) -> None:
    said = run(broker, tmp_path, "--no-acking", *SMALL)
    assert figure(said, "lost") > 0
    assert figure(said, "charged twice") == 0


@pytest.mark.timeout(400)
def test_with_acking_alone_none_is_lost_and_some_are_charged_twice(broker: Broker, tmp_path: Path) -> None:
    said = run(
        broker,
        tmp_path,
        "--guarantee",
        "at-least-once",
        "--orders",
        "400",
        "--kills",
        "3",
        "--away-s",
        "3",
        "--within-s",
        "300",
    )
    assert figure(said, "lost") == 0
    assert min(figure(said, "charged twice"), figure(said, "status set twice")) > 0


def plan(*options: str) -> Plan:
    return parse([*options, "--orders", "200"])


def perfect(plan: Plan) -> Outcome:
    """What a run leaves behind of which nothing went wrong."""
    statuses = {order.id: expected(order) for order in make_orders(plan.orders)}
    return Outcome(
        statuses=statuses,
        times_set=dict.fromkeys(statuses, 1),
        charges={order: 1 for order, status in statuses.items() if status is Status.AUTHORISED},
        answers={},
        notices={order: {status.value: 1} for order, status in statuses.items()},
        killed=[killing.worker for killing in choose_killings(plan)],
        crash_points=sorted(choose_crash_points(plan).values()),
        left={"orders": 0},
        seconds=1.0,
    )


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_the_proof_holds_for_a_perfect_run(guarantee: Guarantee) -> None:
    asked = plan("--guarantee", guarantee)
    assert all(claim.holds for claim in prove(asked, make_orders(200), perfect(asked)))


SECOND = "order-00002"


@pytest.mark.parametrize(
    ("guarantee", "flaw"),
    [
        ("at-most-once", {"charges": {SECOND: 2}}),
        ("at-least-once", {"statuses": {}}),
        ("at-least-once", {"notices": {}}),
        ("effectively-once", {"statuses": {SECOND: Status.DECLINED}}),
        ("effectively-once", {"times_set": {SECOND: 2}}),
        ("effectively-once", {"charges": {SECOND: 2}}),
        ("effectively-once", {"charges": {"order-00010": 1}}),
        ("effectively-once", {"notices": {SECOND: {}}}),
        ("effectively-once", {"notices": {SECOND: {"authorised": 1, "declined": 1}}}),
        ("effectively-once", {"killed": ["notify-1"]}),
        ("effectively-once", {"crash_points": ["charged"]}),
        ("effectively-once", {"left": {"orders": 1}}),
    ],
)
def test_the_proof_fails_for_a_run_that_went_wrong(guarantee: str, flaw: dict[str, object]) -> None:
    asked = plan("--guarantee", guarantee)
    well = perfect(asked)
    wrong = {
        name: {**getattr(well, name), **value} if isinstance(value, dict) and value else value
        for name, value in flaw.items()
    }
    assert not all(claim.holds for claim in prove(asked, make_orders(200), replace(well, **wrong)))
