"""Client of the card service: charges an order and maps the answer to a status."""

from typing import Any

import httpx

from examples.support import card_service
from examples.support.http_service import read_ledger, start_service
from examples.support.orders import Order
from examples.support.processes import Processes
from examples.support.statuses import Status

TIMEOUT_S = 1.0

_MEANS = {
    card_service.APPROVED: Status.AUTHORISED,
    card_service.DUPLICATE: Status.AUTHORISED,  # charged by an earlier attempt whose answer was lost
    card_service.DECLINED: Status.DECLINED,
    card_service.INVALID: Status.INVALID,
}


class CardFault(Exception):
    """The card service erred or hung, and whether it has charged is not known: worth another try."""


class Cards:
    """The card service as workers see it, for any number of threads."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        limits = httpx.Limits(max_keepalive_connections=32)
        self._http = httpx.Client(base_url=url, timeout=timeout_s, limits=limits, trust_env=False)

    def charge(self, order: Order, *, transaction: str) -> Status:
        """Charge an order; one transaction is charged once, however often it is sent. Raises `CardFault`."""
        try:
            answer = self._http.post("/charges", json=_wanted(order, transaction))
        except httpx.TransportError as error:
            raise CardFault(f"the card service did not answer: {type(error).__name__}") from error
        if answer.status_code not in _MEANS:
            raise CardFault(f"the card service answered {answer.status_code}")
        return _MEANS[answer.status_code]

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def start_card_service(processes: Processes, task: card_service.Task) -> str:
    """Start the card service, and return its address."""
    return start_service(processes, "card_service", task)


def read_charges(url: str) -> dict[str, int]:
    """Ask the card service how often it has charged each order."""
    return dict(read_ledger(url)["charges"])


def read_answers(url: str) -> dict[str, int]:
    """Ask the card service what it has answered how often."""
    return dict(read_ledger(url)["answers"])


def _wanted(order: Order, transaction: str) -> dict[str, Any]:
    return {
        "transactionId": transaction,
        "orderId": order.id,
        "creditCardNumber": order.credit_card_number,
        "creditCardExpiration": order.credit_card_expiration,
        "creditCardCode": order.credit_card_code,
        "amount": order.charge_amount,
    }
