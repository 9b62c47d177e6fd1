"""Lands the sales of one shop in one hour: a program that JSON starts. It is a bolt: it acks its child of the batch."""

import csv
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from acker_client import Acker, FailTuple

SALES = 200
PRODUCTS = ("apples", "bread", "cheese")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a producer is started with; ``trouble`` is "", or "hang" or "fail" when half of the sales are written."""

    acker: str
    headers: dict[str, str]
    folder: str
    shop: str
    trouble: str = ""


def land(task: Task) -> None:
    """Write the sales to a file, which has its name only when it is whole."""
    landed = Path(task.folder) / f"{task.shop}.csv"
    unfinished = landed.with_suffix(".unfinished")
    with unfinished.open("w", newline="") as lines:
        for number in range(SALES):
            csv.writer(lines).writerow([task.shop, PRODUCTS[number % len(PRODUCTS)], 1 + number % 4, 250])
            if number == SALES // 2:
                lines.flush()
                meet(task.trouble)
    unfinished.replace(landed)


def meet(trouble: str) -> None:
    """Hang until somebody kills this process, or give up."""
    if trouble == "hang":
        signal.pause()
    if trouble == "fail":
        raise FailTuple("the till does not answer")


def main(task: Task) -> None:
    """Land the sales, then ack. A killed process acks nothing; start it again with the same headers."""
    with Acker(task.acker) as acker, acker.receive(task.headers, component="producer"):
        land(task)


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
