"""The authorising worker: charges the card of an order, writes down how it ended, and has it told."""

import os
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acker_client import Acker, DropTuple, FailTuple

from examples.credit_card.plan import Guarantee
from examples.credit_card.wires import Task, Wire, task_of_this_process
from examples.stage.cards import CardFault, Cards
from examples.stage.orders import Order, read_order
from examples.stage.statuses import Away, Status, Statuses


class Authoriser:
    """Works on one order after the other, in several threads."""

    def __init__(self, task: Task, acker: Acker, wire: Wire) -> None:
        self._task, self._acker, self._wire = task, acker, wire
        self._statuses, self._cards = Statuses(Path(task.statuses)), Cards(task.cards)
        self._once = task.guarantee == Guarantee.EFFECTIVELY_ONCE

    def authorise(self, headers: Mapping[str, Any], body: bytes) -> None:
        """Work on one order: whatever is worth another try fails its tree, and the order comes again.

        A declined card is a result like any other. A card that cannot be is reported, and not tried again.
        """
        with self._acker.receive(headers, component="authorise") as tup:
            order = read_order(body)
            try:
                status = self._settle_once(order) if self._once else self._settle(order)
            except (CardFault, Away) as fault:
                raise FailTuple(str(fault)) from fault
            self._fall(order, "settled")
            self._wire.send(self._task.notify, {"orderId": order.id, "status": status}, tup.anchor("notify"))
            if status is Status.INVALID:
                raise DropTuple(f"the card of {order.id} cannot be")

    def _settle_once(self, order: Order) -> Status:
        """Charge an order unless its status is known; the card service knows its transaction if it was charged."""
        status = self._statuses.of(order.id)
        if status is None:
            status = self._cards.charge(order, transaction=order.id)
            self._fall(order, "charged")
            status = self._statuses.settle(order.id, status)
        return status

    def _settle(self, order: Order) -> Status:
        """Charge an order, whatever happened before: each attempt is a transaction of its own."""
        status = self._cards.charge(order, transaction=f"{order.id} {secrets.token_hex(8)}")
        self._fall(order, "charged")
        return self._statuses.overwrite(order.id, status)

    def _fall(self, order: Order, moment: str) -> None:
        """Be killed at this order and moment, if that is the plan, but only the first time any worker gets there."""
        if self._task.doomed.get(order.id) == moment:
            mark = Path(self._task.folder) / f"fallen-{moment}"
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


def main(task: Task) -> None:
    """Run the worker until SIGTERM."""
    wire = Wire(task.broker, task.authorise)
    with Acker(task.acker, topology=task.topology) as acker:
        wire.work_off(Authoriser(task, acker, wire).authorise)


if __name__ == "__main__":
    main(task_of_this_process())
