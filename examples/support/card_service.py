"""The card service: charges cards; now and then it errs or hangs, before or after the charge.

Whether it does so is decided by the order, by how often it was asked about it, and by the seed: so it is the same in
every run, in whatever order they come.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from examples.support.http_service import Answer, serve, task_of_this_process

APPROVED, DECLINED, DUPLICATE, INVALID, FAULT = 200, 402, 409, 422, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """How often it errs and hangs (0.1 is one time in ten), and for how long it hangs."""

    fails: float = 0.0
    hangs: float = 0.0
    hangs_s: float = 30.0
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class CardService:
    """What it has charged: the number of charges by order, and the transactions it knows."""

    task: Task
    charges: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    transactions: set[str] = field(default_factory=set)

    async def charge(self, wanted: dict[str, Any]) -> Answer:
        """Charge a card: 200 approved, 402 declined, 409 duplicate transaction, 422 no such card, 503 out of order."""
        order = wanted["orderId"]
        chance = Random(f"{self.task.seed} {order} {self.asked[order]}")
        self.asked[order] += 1
        draw, late = chance.random(), chance.random() < 0.5
        ill = draw < self.task.fails + self.task.hangs
        if ill and not late:
            return await self._break_down(draw)
        answer = self._decide(wanted)
        return await self._break_down(draw) if ill else answer

    async def _break_down(self, draw: float) -> Answer:
        if draw < self.task.hangs:
            self.answers["hung"] += 1
            await asyncio.sleep(self.task.hangs_s)
        else:
            self.answers["erred"] += 1
        return FAULT, {"answer": "out of order"}

    def _decide(self, wanted: dict[str, Any]) -> Answer:
        if wanted["creditCardExpiration"] > "12/99":
            return self._say(INVALID, "no such card")
        if wanted["transactionId"] in self.transactions:
            return self._say(DUPLICATE, "duplicate transaction")
        if wanted["creditCardNumber"].endswith("0"):
            return self._say(DECLINED, "declined")
        self.transactions.add(wanted["transactionId"])
        self.charges[wanted["orderId"]] += 1
        return self._say(APPROVED, "approved")

    def _say(self, status: int, answer: str) -> Answer:
        self.answers[answer] += 1
        return status, {"answer": answer}

    def ledger(self) -> dict[str, dict[str, int]]:
        """Return how often each order was charged, and what was answered how often."""
        return {"charges": self.charges, "answers": self.answers}


if __name__ == "__main__":
    arguments = task_of_this_process()
    listener = arguments.pop("listener")
    service = CardService(task=Task(**arguments))
    serve(service.charge, service.ledger, listener)
