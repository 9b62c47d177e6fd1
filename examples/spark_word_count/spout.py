"""The spout: appends every sentence to a stream until it is acked, and replays one that failed or timed out."""

import json
import sys
from collections import deque
from dataclasses import dataclass, replace

from acker_client import Acker, Completion

from examples.spark_word_count.plan import SPOUT, TOGETHER, TOPOLOGY, Plan
from examples.support.reports import report
from examples.support.streams import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at one sentence; each is a root of its own, which Spark begins."""

    id: str
    sentence: str
    attempt: int = 1


class SentenceSpout:
    """Keeps what waits to be sent, and the pending map: which attempt of which sentence."""

    def __init__(self, plan: Plan, acker: Acker) -> None:
        self._spout = acker.shared_spout(SPOUT)
        self._stream = Stream(plan.stream)
        self._waiting = deque(Attempt(id=str(number), sentence=line) for number, line in plan.sentences().items())
        self._pending: dict[str, Attempt] = {}
        self._max_pending = plan.max_pending

    def run(self) -> None:
        """Send until every sentence is acked."""
        self._send_what_fits()
        for done in self._spout.completions(poll_timeout=1, stop=self._is_finished):
            self._settle(done)
            self._send_what_fits()
        report(finished=True)

    def _is_finished(self) -> bool:
        return not self._pending and not self._waiting

    def _settle(self, done: Completion) -> None:
        """Note the end of a sentence. A completion that comes a second time finds it no longer pending."""
        attempt = self._pending.pop(done.message_id or "", None)
        if attempt is None:
            return
        if not done.acked:
            self._waiting.appendleft(replace(attempt, attempt=attempt.attempt + 1))
        report(
            sentence=attempt.id,
            attempt=attempt.attempt,
            outcome=done.outcome,
            reason=done.reason,
            pending=len(self._pending),
        )

    def _send_what_fits(self) -> None:
        """Send files of ``TOGETHER`` sentences, smaller ones when nothing else is pending."""
        while self._waiting:
            lot = min(TOGETHER, len(self._waiting))
            if len(self._pending) + lot > self._max_pending or (lot < TOGETHER and self._pending):
                return
            attempts = [self._waiting.popleft() for _ in range(lot)]
            self._pending |= {attempt.id: attempt for attempt in attempts}
            self._stream.append({"id": one.id, "sentence": one.sentence, "attempt": one.attempt} for one in attempts)


def main(plan: Plan) -> None:
    """Run the spout."""
    with Acker(plan.acker, topology=TOPOLOGY, startup_timeout=None) as acker:
        SentenceSpout(plan, acker).run()


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
