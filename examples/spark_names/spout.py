"""The spout: appends each message to a stream, reads the completions, and replays the one that failed."""

import json
import sys

from acker_spark import SparkAcker

from examples.spark_names.plan import MESSAGES, SPOUT, TOPOLOGY, Plan
from examples.support.reports import report
from examples.support.streams import Stream


def main(plan: Plan) -> None:
    """Send all messages, and go on until each is acked."""
    stream = Stream(plan.place("messages"))
    pending = dict.fromkeys(MESSAGES, 1)
    for message in MESSAGES:
        stream.append([_row(message, 1)])
    acker = SparkAcker(url=plan.acker, topology=TOPOLOGY, spout_task=SPOUT)
    for done in acker.completions(poll_timeout=1.0, stop=lambda: not pending):
        message = done.message_id or ""
        if message not in pending:
            continue  # read a second time
        attempt = pending.pop(message)
        report(message=message, attempt=attempt, outcome=done.outcome, reason=done.reason)
        if not done.acked:
            pending[message] = attempt + 1
            stream.append([_row(message, attempt + 1)])
    report(finished=True)


def _row(message: str, attempt: int) -> dict[str, object]:
    return {"id": message, "attempt": attempt, "text": MESSAGES[message]}


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
