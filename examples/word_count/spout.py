"""The spout: emits every line of the book until it is acked, and replays a line that failed or timed out."""

import contextlib
import json
import random
import sys
from collections import deque
from dataclasses import dataclass, replace

import httpx
from acker_client import Acker, Completion, Spout

from examples.word_count.journal import Journal
from examples.word_count.plan import Plan
from examples.word_count.reports import report
from examples.word_count.tuples import Sentence

TOGETHER = 20
"""Lines emitted together: one request to a split worker, one to the acker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What this process is started with."""

    acker: str
    topology: str
    split_workers: list[str]
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at one line."""

    line: int
    text: str
    number: int = 1


class LineSpout:
    """Keeps what waits to be emitted, and the pending map: which attempt goes with which root."""

    def __init__(self, task: Task, acker: Acker, http: httpx.Client) -> None:
        self._acker = acker
        self._http = http
        self._split_workers = task.split_workers
        self._spout: Spout = acker.spout("lines")
        self._waiting = deque(Attempt(line=line, text=text) for line, text in task.plan.read_lines().items())
        self._pending: dict[str, Attempt] = {}
        self._max_pending = task.plan.max_pending
        self._random = random.Random(task.plan.seed)
        self._journal = Journal()

    def run(self) -> None:
        """Emit until every line is acked."""
        self._emit_what_fits()
        for done in self._spout.completions(page_size=100, stop=self._is_finished):
            self._settle(done)
            self._emit_what_fits()
            report(progress=self._journal.progress(pending=len(self._pending), waiting=len(self._waiting)))
        report(end=self._journal.summary())

    def _is_finished(self) -> bool:
        return not self._pending and not self._waiting

    def _settle(self, done: Completion) -> None:
        """Count a completion. A completion that comes a second time is not pending any more."""
        attempt = self._pending.pop(done.root_id, None)
        if attempt is None:
            return
        self._journal.note(done, line=attempt.line, attempt=attempt.number)
        if not done.acked:
            self._waiting.appendleft(replace(attempt, number=attempt.number + 1))

    def _emit_what_fits(self) -> None:
        """Emit ``TOGETHER`` lines at a time, the rest when nothing else is pending."""
        while self._waiting:
            lot = min(TOGETHER, len(self._waiting), self._max_pending)
            if len(self._pending) + lot > self._max_pending:
                return
            self._emit([self._waiting.popleft() for _ in range(lot)])

    def _emit(self, attempts: list[Attempt]) -> None:
        """Emit a root for each; the sentences are on their way before the inits are, and the acks may overtake them."""
        with self._acker.batch():
            self._send([self._emit_one(attempt) for attempt in attempts])

    def _emit_one(self, attempt: Attempt) -> Sentence:
        with self._spout.emit(message_id=str(attempt.line)) as root:
            headers = root.headers("sentence")
        self._pending[root.root_id] = attempt
        return Sentence(headers=headers, line=attempt.line, attempt=attempt.number, text=attempt.text)

    def _send(self, sentences: list[Sentence]) -> None:
        """Send to any split worker (Storm's shuffle grouping); if they are lost, their roots time out."""
        url = self._random.choice(self._split_workers)
        with contextlib.suppress(httpx.TransportError):
            self._http.post(f"{url}/tuples", json=sentences).raise_for_status()


def main(task: Task) -> None:
    """Run the spout."""
    with Acker(task.acker, topology=task.topology, startup_timeout=None) as acker, httpx.Client() as http:
        LineSpout(task, acker, http).run()


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    main(Task(**task | {"plan": Plan(**task["plan"])}))
