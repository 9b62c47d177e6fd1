"""The notifying worker: tells the second system what became of an order."""

import json
from collections.abc import Mapping
from typing import Any

from acker_client import Acker, FailTuple

from examples.credit_card.wires import Task, Wire, task_of_this_process
from examples.stage.notices import NoticeFault, Notices
from examples.stage.statuses import Status


def main(task: Task) -> None:
    """Run the worker until SIGTERM."""
    wire, notices = Wire(task.broker, task.notify), Notices(task.notices)
    with Acker(task.acker, topology=task.topology) as acker:

        def notify(headers: Mapping[str, Any], body: bytes) -> None:
            with acker.receive(headers, component="notify"):
                notice = json.loads(body)
                try:
                    notices.tell(notice["orderId"], Status(notice["status"]))
                except NoticeFault as fault:
                    raise FailTuple(str(fault)) from fault

        wire.work_off(notify)
    notices.close()


if __name__ == "__main__":
    main(task_of_this_process())
