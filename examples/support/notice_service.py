"""The notice service: the second system, which is told what became of each order and counts how often."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from examples.support.http_service import Answer, serve, task_of_this_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """It needs to be told nothing."""


@dataclass(slots=True, kw_only=True)
class NoticeService:
    """How often it was told which status of each order."""

    told: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    async def take(self, notice: dict[str, Any]) -> Answer:
        """Take note."""
        self.told[notice["orderId"]][notice["status"]] += 1
        return 200, {}

    def ledger(self) -> dict[str, Counter[str]]:
        """Give how often it was told which status, by order."""
        return self.told


if __name__ == "__main__":
    task = task_of_this_process()
    service = NoticeService()
    serve(service.take, service.ledger, task["listener"])
