"""Creates an asset event for each hour that has landed, when its completion comes: a program that JSON starts."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from acker_client import Completion
from acker_client.webhook import webhook_app

from examples.airflow.api import AirflowApi

ASSET = "sales"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the receiver is started with; it appends a line to ``ledger`` for each completion that it has handled."""

    port: int
    secret: str
    ledger: str
    airflow: dict[str, str]


def receiver(task: Task) -> Any:
    """Make the application. It checks the signature; a completion whose event cannot be created is posted again."""
    airflow = AirflowApi(**task.airflow)

    def handle(completion: Completion) -> None:
        if completion.acked:
            airflow.create_event(ASSET, {"hour": str(completion.message_id), "completion": completion.id})
        with Path(task.ledger).open("a") as ledger:
            print(json.dumps([completion.message_id, str(completion.outcome), completion.reason]), file=ledger)

    return webhook_app(task.secret, handle)


if __name__ == "__main__":
    task = Task(**json.loads(sys.argv[1]))
    uvicorn.run(receiver(task), host="127.0.0.1", port=task.port, log_level="warning")
