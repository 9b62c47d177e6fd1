"""The parts that the pipelines play on do what they say."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.support import card_service
from examples.support.broker import Broker, running_broker
from examples.support.cards import CardFault, Cards, read_answers, read_charges, start_card_service
from examples.support.notices import Notices, read_notices, start_notice_service
from examples.support.orders import make_orders, publish, read_order
from examples.support.processes import Processes, processes_in
from examples.support.reports import Reports
from examples.support.statuses import Away, Status, Statuses, away
from tests.support.broker import need_broker

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


def test_orders_lie_in_the_queue_as_json(broker: Broker, queue: str) -> None:
    orders = make_orders(20)
    assert publish(broker.url, queue, orders) == 20 == broker.ready(queue)
    connection = broker.connect()
    method, _, body = connection.channel().basic_get(queue, auto_ack=True)
    connection.close()
    assert method is not None
    assert read_order(body) == orders[0]


def test_a_broker_that_was_killed_has_its_orders_when_it_starts_again(tmp_path: Path, queue: str) -> None:
    need_broker()
    with running_broker(tmp_path) as broker:
        publish(broker.url, queue, [])
        broker.stop()  # RabbitMQ writes the declaration of a queue to disk after it has confirmed it
        broker.start()
        publish(broker.url, queue, make_orders(5))
        broker.kill()
        broker.start()
        assert broker.ready(queue) == 5


def test_no_order_is_what_says_something_else() -> None:
    for body in (b"", b"[]", b"{}", b"\xff", b'{"id": "1"}'):
        with pytest.raises(ValueError, match="no order"):
            read_order(body)


def test_the_card_service_charges_a_transaction_once_and_declines_some_cards(processes: Processes) -> None:
    url = start_card_service(processes, card_service.Task())
    cards, orders = Cards(url, timeout_s=30), make_orders(10)
    assert [cards.charge(order, transaction=order.id) for order in orders] == [
        Status.INVALID, *[Status.AUTHORISED] * 8, Status.DECLINED,
    ]  # fmt: skip
    assert cards.charge(orders[1], transaction=orders[1].id) is Status.AUTHORISED
    assert cards.charge(orders[2], transaction="another") is Status.AUTHORISED
    cards.close()
    charges = read_charges(url)
    assert (len(charges), charges[orders[1].id], charges[orders[2].id]) == (8, 1, 2)
    assert read_answers(url) == {"no such card": 1, "approved": 9, "declined": 1, "duplicate transaction": 1}


def test_the_card_service_errs_and_hangs_before_or_after_the_charge_and_is_asked_again(processes: Processes) -> None:
    url = start_card_service(processes, card_service.Task(fails=0.4, hangs=0.2))
    cards, faults = Cards(url, timeout_s=0.5), 0
    for order in make_orders(30):
        while True:
            try:
                cards.charge(order, transaction=order.id)
                break
            except CardFault:
                faults += 1
    cards.close()
    answers = read_answers(url)
    assert faults >= answers["erred"] + answers["hung"]
    assert min(answers["erred"], answers["hung"], answers["duplicate transaction"]) > 0
    assert set(read_charges(url).values()) == {1}


def test_an_order_keeps_its_first_status(tmp_path: Path) -> None:
    statuses = Statuses(tmp_path / "statuses.db")
    statuses.create()
    assert statuses.of("1") is None
    assert statuses.settle("1", Status.DECLINED) is Status.DECLINED
    assert statuses.settle("1", Status.AUTHORISED) is Status.DECLINED
    assert statuses.overwrite("2", Status.DECLINED) is Status.DECLINED
    assert statuses.overwrite("2", Status.AUTHORISED) is Status.AUTHORISED
    assert statuses.all() == {"1": Status.DECLINED, "2": Status.AUTHORISED}
    assert statuses.times_set() == {"1": 1, "2": 2}


def test_while_the_database_is_away_it_can_neither_be_read_nor_written(tmp_path: Path) -> None:
    statuses = Statuses(tmp_path / "statuses.db")
    statuses.create()
    with away(tmp_path / "statuses.db"):
        with pytest.raises(Away):
            statuses.of("1")
        with pytest.raises(Away):
            statuses.settle("1", Status.AUTHORISED)
    assert statuses.of("1") is None


def test_the_notice_service_counts_what_it_is_told(processes: Processes) -> None:
    url = start_notice_service(processes)
    notices = Notices(url)
    for status in (Status.AUTHORISED, Status.AUTHORISED):
        notices.send("1", status)
    notices.close()
    assert read_notices(url) == {"1": {"authorised": 2}}


def test_what_is_reported_is_read_though_somebody_else_is_in_the_middle_of_a_line(processes: Processes) -> None:
    """As a JVM may be that writes into the same log. What a report cuts in two was no report."""
    telling = """
import os
from examples.support.reports import report
os.write(1, b"WARN of another ")
report(greeting="a")
os.write(2, b'program {"greet')
report(greeting="b" * 20_000)
report(greeting="c")
os.write(1, b'{"greeting": "not all of')
"""
    child = processes.start("teller", [sys.executable, "-c", telling])
    assert child.wait(within=60) == 0
    reports = Reports(child.log)
    assert [told["greeting"] for told in reports.read()] == ["a", "b" * 20_000, "c"]
    assert list(reports.read()) == []
    assert child.tail().startswith("WARN of another")
