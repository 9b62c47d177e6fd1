"""The claims that have to hold at the end of a run."""

from collections import Counter
from dataclasses import dataclass, field

from examples.support.orders import Order
from examples.support.screen import Claim
from examples.support.statuses import Status


@dataclass(slots=True, kw_only=True)
class Story:
    """What was seen on the way."""

    acked: set[str] = field(default_factory=set)
    failed: Counter[str] = field(default_factory=Counter)
    redelivered: Counter[str] = field(default_factory=Counter)
    rejected: set[str] = field(default_factory=set)
    pending: int = 0
    driver_killed_at: int | None = None
    spout_killed_at: int | None = None
    spout_held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What is there at the end."""

    statuses: dict[str, Status]
    charges: dict[str, int]
    notices: dict[str, dict[str, int]]
    in_queue: int
    pending: int


def expected(order: Order) -> Status:
    """Return how an order has to end."""
    if order.credit_card_expiration > "12/99":
        return Status.INVALID
    return Status.DECLINED if order.credit_card_number.endswith("0") else Status.AUTHORISED


def prove(orders: list[Order], unreadable: str, story: Story, end: End) -> list[Claim]:
    """Hold what a run has left behind against the orders."""
    ought = {order.id: expected(order) for order in orders}
    to_charge = {order: 1 for order, status in ought.items() if status is Status.AUTHORISED}
    noticed = {order: list(statuses) for order, statuses in end.notices.items()}
    counted = Counter(ought.values())
    said = ", ".join(f"{count} {status}" for status, count in sorted(counted.items()))
    came_again = story.redelivered.total() - story.failed.total()
    notices = sum(sum(times.values()) for times in end.notices.values())
    return [
        Claim(says=f"every order has its status: {said}", holds=end.statuses == ought),
        _charged_once(to_charge, end.charges),
        Claim(
            says=f"the second system got a notice of each of the {len(ought)} orders, in {notices} notices",
            holds=noticed == {order: [status] for order, status in ought.items()},
        ),
        Claim(
            says="what was no order at all was reported and acked",
            holds=unreadable in story.rejected and unreadable in story.acked,
        ),
        Claim(
            says=f"{end.in_queue} deliveries are in the queue, and {end.pending} trees are pending",
            holds=end.in_queue == 0 == end.pending,
        ),
        Claim(
            says=f"{story.failed.total()} trees failed, and their orders came again",
            holds=story.failed.total() > 0 and story.failed.keys() <= story.acked,
        ),
        Claim(
            says=f"the driver was killed with SIGKILL in the middle of a batch, with {story.driver_killed_at} orders "
            "settled, and went on from its checkpoint",
            holds=story.driver_killed_at is not None and story.driver_killed_at < len(orders),
        ),
        Claim(
            says=f"the spout was killed with SIGKILL with {story.spout_killed_at} orders acked and {story.spout_held} "
            f"held, and {came_again} deliveries of it came again",
            holds=story.spout_killed_at is not None and came_again > 0,
        ),
    ]


def _charged_once(ought: dict[str, int], charges: dict[str, int]) -> Claim:
    if charges == ought:
        return Claim(says=f"{len(ought)} cards were charged, each once", holds=True)
    twice = [order for order, times in charges.items() if times > 1]
    lost = sorted(ought.keys() - charges.keys())
    says = f"{len(twice)} cards were charged more than once (first {twice[:3]}), {len(lost)} never ({lost[:3]})"
    return Claim(says=says, holds=False)
