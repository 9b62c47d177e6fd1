"""The claims that have to hold at the end of a run, by its guarantee."""

from dataclasses import dataclass

from examples.credit_card.plan import Guarantee, Plan, choose_crash_points
from examples.credit_card.supervisor import Outcome
from examples.support.orders import DECLINED_EVERY, INVALID_EVERY, Order
from examples.support.statuses import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim, and whether it holds."""

    says: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a run has lost and doubled, in orders."""

    lost: int
    charged_twice: int
    status_set_twice: int
    notified_again: int


def count(orders: list[Order], outcome: Outcome) -> Count:
    """Count. An order is lost if no notice was sent, or if it has no status."""
    notified = {order for order, notices in outcome.notices.items() if notices}
    return Count(
        lost=sum(order.id not in outcome.statuses or order.id not in notified for order in orders),
        charged_twice=sum(times > 1 for times in outcome.charges.values()),
        status_set_twice=sum(times > 1 for times in outcome.times_set.values()),
        notified_again=sum(sum(notices.values()) > 1 for notices in outcome.notices.values()),
    )


def prove(plan: Plan, orders: list[Order], outcome: Outcome) -> list[Claim]:
    """Compare the result of a run with what its guarantee promises."""
    counted = count(orders, outcome)
    claims = {
        Guarantee.AT_MOST_ONCE: [_none_twice(counted)],
        Guarantee.AT_LEAST_ONCE: [_none_lost(counted), _all_told(orders, outcome)],
        Guarantee.EFFECTIVELY_ONCE: [
            _none_lost(counted),
            _right(orders, outcome),
            _once(orders, outcome),
            _none_twice(counted),
            _charged(outcome),
            _all_told(orders, outcome),
            _killed(plan, outcome),
            _crashed(plan, outcome),
        ],
    }
    return [*claims[plan.guarantee], _empty(outcome)]


def expected(order: Order) -> Status:
    """Return how an order has to end."""
    number = int(order.id.rpartition("-")[2])
    if number % INVALID_EVERY == 1:
        return Status.INVALID
    return Status.AUTHORISED if number % DECLINED_EVERY else Status.DECLINED


def _none_lost(counted: Count) -> Claim:
    return Claim(says=f"{counted.lost} orders were lost", holds=counted.lost == 0)


def _none_twice(counted: Count) -> Claim:
    return Claim(says=f"{counted.charged_twice} orders were charged twice", holds=counted.charged_twice == 0)


def _right(orders: list[Order], outcome: Outcome) -> Claim:
    wrong = [order.id for order in orders if outcome.statuses.get(order.id) is not expected(order)]
    says = "every order, also one that was declined, ended in the status that it has to"
    return Claim(
        says=says if not wrong else f"{len(wrong)} orders did not end as they have to: {wrong[:5]}", holds=not wrong
    )


def _once(orders: list[Order], outcome: Outcome) -> Claim:
    once = outcome.times_set == {order.id: 1 for order in orders}
    return Claim(says="every order was given its status exactly once", holds=once)


def _charged(outcome: Outcome) -> Claim:
    authorised = {order for order, status in outcome.statuses.items() if status is Status.AUTHORISED}
    says = f"the {len(outcome.charges)} orders that were charged are those that are authorised"
    return Claim(says=says, holds=authorised == outcome.charges.keys())


def _all_told(orders: list[Order], outcome: Outcome) -> Claim:
    """No order without a notice, and no notice that says other than the status."""
    right = all(set(outcome.notices.get(order.id, ())) == {outcome.statuses.get(order.id)} for order in orders)
    return Claim(says="the second system got the status of every order, and nothing else", holds=right)


def _killed(plan: Plan, outcome: Outcome) -> Claim:
    spouts = outcome.killed.count("spout")
    says = f"{len(outcome.killed)} processes were killed with SIGKILL, {spouts} times the spout"
    return Claim(says=says, holds=len(outcome.killed) >= plan.kills and (spouts > 0 or not plan.kills))


def _crashed(plan: Plan, outcome: Outcome) -> Claim:
    says = "one worker died between charge and status, and one between status and notice"
    return Claim(says=says, holds=outcome.crash_points == sorted(choose_crash_points(plan).values()))


def _empty(outcome: Outcome) -> Claim:
    left = sum(outcome.left.values())
    return Claim(says=f"{left} messages are left in RabbitMQ's queues", holds=left == 0)
