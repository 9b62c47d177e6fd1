"""The notice service: the second system, which gets the status of each order and counts how often."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from examples.support.http_service import Answer, serve, task_of_this_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """It has no configuration."""


@dataclass(slots=True, kw_only=True)
class NoticeService:
    """How often it got which status of each order."""

    received: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    async def take(self, notice: dict[str, Any]) -> Answer:
        """Take note."""
        self.received[notice["orderId"]][notice["status"]] += 1
        return 200, {}

    def ledger(self) -> dict[str, Counter[str]]:
        """Return how often it got which status, by order."""
        return self.received


if __name__ == "__main__":
    task = task_of_this_process()
    service = NoticeService()
    serve(service.take, service.ledger, task["listener"])
