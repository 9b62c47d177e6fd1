"""The orders: their fields, their JSON, and how a list of them is made up."""

import contextlib
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass

import pika

DECLINED_EVERY, INVALID_EVERY = 10, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order, in the words of its JSON; ``charge_amount`` in cents."""

    id: str
    customer_id: str
    credit_card_number: str
    credit_card_expiration: str
    credit_card_code: str
    charge_amount: int

    def to_json(self) -> bytes:
        """Write it."""
        return json.dumps({name: getattr(self, field) for name, field in _NAMES.items()}).encode()


_NAMES = {
    "id": "id",
    "customerId": "customer_id",
    "creditCardNumber": "credit_card_number",
    "creditCardExpiration": "credit_card_expiration",
    "creditCardCode": "credit_card_code",
    "chargeAmount": "charge_amount",
}


def read_order(body: bytes) -> Order:
    """Read an order. Raises ``ValueError`` for what is none."""
    try:
        found = json.loads(body)
        return Order(**{field: found[name] for name, field in _NAMES.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no order: {error!r}") from None


def make_orders(count: int, *, seed: int = 1) -> list[Order]:
    """Make up orders. Of every hundred ten have a card that is declined, and one an expiration that no card has."""
    chance = random.Random(seed)
    return [_make_order(number, chance) for number in range(1, count + 1)]


def _make_order(number: int, chance: random.Random) -> Order:
    last = 0 if number % DECLINED_EVERY == 0 else chance.randint(1, 9)
    month = 13 if number % INVALID_EVERY == 1 else chance.randint(1, 12)
    return Order(
        id=f"order-{number:05d}",
        customer_id=f"customer-{chance.randint(1, 500)}",
        credit_card_number=f"4{chance.randrange(10**14):014d}{last}",
        credit_card_expiration=f"{month:02d}/{chance.randint(27, 31)}",
        credit_card_code=f"{chance.randrange(1000):03d}",
        charge_amount=chance.randint(100, 50_000),
    )


def publish(url: str, queue: str, orders: Iterable[Order]) -> int:
    """Put orders into a durable queue, where they survive the broker, and return how many. Each was confirmed."""
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.tx_select()
        count = 0
        for count, order in enumerate(orders, start=1):  # noqa: B007 - the last one is the number of all
            properties = pika.BasicProperties(message_id=order.id, delivery_mode=2, content_type="application/json")
            channel.basic_publish("", queue, order.to_json(), properties)
        channel.tx_commit()
    return count
