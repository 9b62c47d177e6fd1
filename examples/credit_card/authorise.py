"""The authorising worker: charges the card of an order, stores its status, and sends the notice on."""

import os
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acker_client import Acker, DropTuple, FailTuple

from examples.credit_card.plan import Guarantee
from examples.credit_card.queues import Task, TupleQueue, task_of_this_process
from examples.support.cards import CardFault, Cards
from examples.support.orders import Order, read_order
from examples.support.statuses import Away, Status, Statuses


class Authoriser:
    """Works on one order after the other, in several threads."""

    def __init__(self, task: Task, acker: Acker, tuples: TupleQueue) -> None:
        self._task = task
        self._acker = acker
        self._tuples = tuples
        self._statuses = Statuses(Path(task.statuses))
        self._cards = Cards(task.cards)
        self._once = task.guarantee == Guarantee.EFFECTIVELY_ONCE

    def authorise(self, headers: Mapping[str, Any], body: bytes) -> None:
        """Work on one order: an error that another try may cure fails its tree, and the order comes again.

        A declined card is a result like any other. An invalid card is reported, and not tried again.
        """
        with self._acker.receive(headers, component="authorise") as tup:
            order = read_order(body)
            try:
                status = self._settle_once(order) if self._once else self._settle(order)
            except (CardFault, Away) as error:
                raise FailTuple(str(error)) from error
            self._crash_if_planned(order, "settled")
            self._tuples.send(self._task.notify, {"orderId": order.id, "status": status}, tup.anchor("notify"))
            if status is Status.INVALID:
                raise DropTuple(f"the card of {order.id} is invalid")

    def _settle_once(self, order: Order) -> Status:
        """Charge an order unless its status is known; the card service knows its transaction if it was charged."""
        status = self._statuses.of(order.id)
        if status is None:
            status = self._cards.charge(order, transaction=order.id)
            self._crash_if_planned(order, "charged")
            status = self._statuses.settle(order.id, status)
        return status

    def _settle(self, order: Order) -> Status:
        """Charge an order, whatever happened before: each attempt is a transaction of its own."""
        status = self._cards.charge(order, transaction=f"{order.id} {secrets.token_hex(8)}")
        self._crash_if_planned(order, "charged")
        return self._statuses.overwrite(order.id, status)

    def _crash_if_planned(self, order: Order, moment: str) -> None:
        """Be killed at this order and moment, if that is the plan, but only the first time any worker gets there."""
        if self._task.crash_at.get(order.id) == moment:
            mark = Path(self._task.folder) / f"crashed-{moment}"
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


def main(task: Task) -> None:
    """Run the worker until SIGTERM."""
    tuples = TupleQueue(task.broker, task.authorise)
    with Acker(task.acker, topology=task.topology, startup_timeout=None) as acker:
        tuples.work(Authoriser(task, acker, tuples).authorise)


if __name__ == "__main__":
    main(task_of_this_process())
