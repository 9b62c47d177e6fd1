"""The steps for one order, as Spark runs them; each may be repeated."""

import uuid
from functools import cache
from pathlib import Path

from examples.support.cards import CardFault, Cards
from examples.support.notices import NoticeFault, Notices
from examples.support.orders import read_order
from examples.support.statuses import Away, Status, Statuses

Said = tuple[str | None, str | None, str | None, str | None]
SAID = "id string, status string, fault string, error string"
"""The order and its status; or a fault, which is worth another try; or an error, which is not."""


def authorise(body: str, cards: str, statuses: str) -> Said:
    """Give an order its status: the one it has, else what the card service says, whom it tells one transaction."""
    try:
        order = read_order(body.encode())
    except ValueError as error:
        return None, None, None, str(error)
    database = Statuses(Path(statuses))
    try:
        status = database.of(order.id)
        if status is None:
            status = database.settle(order.id, _cards(cards).charge(order, transaction=order.id))
    except (CardFault, Away) as fault:
        return order.id, None, str(fault), None
    return order.id, status.value, None, None


def authorise_carelessly(body: str, cards: str, statuses: str) -> Said:
    """Charge without a look at the database, each time as another transaction: what is done again is charged again."""
    try:
        order = read_order(body.encode())
    except ValueError as error:
        return None, None, None, str(error)
    try:
        status = _cards(cards).charge(order, transaction=uuid.uuid4().hex)
        Statuses(Path(statuses)).settle(order.id, status)
    except (CardFault, Away) as fault:
        return order.id, None, str(fault), None
    return order.id, status.value, None, None


def notify(order_id: str, status: str, notices: str) -> str | None:
    """Send a notice to the second system, and return the fault, if there was one."""
    try:
        _notices(notices).send(order_id, Status(status))
    except NoticeFault as fault:
        return str(fault)
    return None


@cache
def _cards(url: str) -> Cards:
    return Cards(url)


@cache
def _notices(url: str) -> Notices:
    return Notices(url)
