"""The notifying worker: sends the status of an order to the second system."""

import json
from collections.abc import Mapping
from typing import Any

from acker_client import Acker, FailTuple

from examples.credit_card.queues import Task, TupleQueue, task_of_this_process
from examples.support.notices import NoticeFault, Notices
from examples.support.statuses import Status


def main(task: Task) -> None:
    """Run the worker until SIGTERM."""
    tuples, notices = TupleQueue(task.broker, task.notify), Notices(task.notices)
    with Acker(task.acker, topology=task.topology, startup_timeout=None) as acker:

        def notify(headers: Mapping[str, Any], body: bytes) -> None:
            with acker.receive(headers, component="notify"):
                notice = json.loads(body)
                try:
                    notices.send(notice["orderId"], Status(notice["status"]))
                except NoticeFault as error:
                    raise FailTuple(str(error)) from error

        tuples.work(notify)
    notices.close()


if __name__ == "__main__":
    main(task_of_this_process())
