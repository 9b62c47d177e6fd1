"""The run from start to end: an acker, the spout and the driver, what they tell, and what that proves."""

import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from examples.spark_word_count.plan import DEDUPE_S, MESSAGE_TIMEOUT_S, TOPOLOGY, Plan
from examples.support.acker import count_pending, create_topology, start_acker
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.reports import Reports
from examples.support.screen import Claim, Screen
from examples.word_count import text

LOOK_S = 0.1


def run(plan: Plan) -> int:
    """Run a plan, and return the exit code."""
    screen = Screen()
    with tempfile.TemporaryDirectory(prefix="acker-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with processes_in(folder) as processes:
            plan = replace(plan, acker=start_acker(processes, folder / "data"), folder=str(folder / "run"))
            Path(plan.folder).mkdir()
            create_topology(
                plan.acker, TOPOLOGY, message_timeout=MESSAGE_TIMEOUT_S, dedupe_window=DEDUPE_S, retention=DEDUPE_S
            )
            screen.log(f"Counting the words of {plan.lines} lines of Newton's Opticks; starting Spark")
            round_ = Round(plan, processes, screen)
            try:
                round_.follow()
                return screen.conclude(round_.prove())
            finally:
                round_.driver.kill_group()


@dataclass(slots=True, kw_only=True)
class Story:
    """What was reported."""

    acked: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    batches: Counter[int] = field(default_factory=Counter)
    pending: int = 0
    finished: bool = False


class Round:
    """The spout and the driver, and what they have reported."""

    def __init__(self, plan: Plan, processes: Processes, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self.story = Story()
        self._spout, self.driver = (self._start(processes, name) for name in ("spout", "driver"))
        self._reports = [Reports(child.log) for child in (self._spout, self.driver)]

    def follow(self) -> None:
        """Follow until the spout has finished. Raises `Died`, ``TimeoutError``."""
        until = time.monotonic() + self._plan.within_s
        while not self.story.finished:
            if time.monotonic() > until:
                raise TimeoutError(f"not all was acked within {self._plan.within_s:.0f} s:\n{self.driver.tail()}")
            for child in (self._spout, self.driver):
                if child.process.poll():
                    raise Died(f"{child.name} ended with code {child.process.returncode}:\n{child.tail()}")
            for report in (report for reports in self._reports for report in reports.read()):
                self._note(report)
            self._show()
            time.sleep(LOOK_S)

    def prove(self) -> list[Claim]:
        """Hold what is left behind against the text."""
        hard = {str(number) for number in self._plan.hard()}
        plain = text.plain_count(self._plan.sentences().values())
        pending = count_pending(self._plan.acker, TOPOLOGY)
        again = [batch for batch, times in self.story.batches.items() if times > 1]
        return [
            _equal(_saved(self._plan.counts), plain),
            Claim(
                says=f"{len(self.story.acked)} of {self._plan.lines} sentences were acked",
                holds=len(self.story.acked) == self._plan.lines,
            ),
            Claim(
                says=f"{len(self.story.failed)} sentences failed, were replayed and then acked",
                holds=self.story.failed.keys() == hard and hard <= self.story.acked,
            ),
            Claim(
                says=f"batch {again} failed after its counts were saved, was run again, and counts once",
                holds=bool(again),
            ),
            Claim(says=f"{pending} trees are pending", holds=pending == 0),
        ]

    def _start(self, processes: Processes, name: str) -> Child:
        return processes.start_module(name, f"examples.spark_word_count.{name}", json.dumps(asdict(self._plan)))

    def _note(self, report: dict[str, object]) -> None:
        match report:
            case {"outcome": "acked", "sentence": str(number), "attempt": int(attempt), "pending": int(pending)}:
                self.story.acked.add(number)
                self.story.pending = pending
                if attempt > 1:
                    self._screen.log(f"sentence {number}, attempt {attempt}: acked")
            case {"outcome": str(outcome), "sentence": str(number), "attempt": int(attempt), "reason": reason}:
                self.story.failed[number] = str(reason)
                line = self._plan.sentences()[int(number)].strip()
                self._screen.log(f"sentence {number}, attempt {attempt}: {outcome} ({reason}), replayed: {line!r}")
            case {"batch": int(batch)}:
                self.story.batches[batch] += 1
            case {"failed": str(cause)}:
                self._screen.log(f"the query ended ({cause}) and goes on from its checkpoint")
            case {"finished": True}:
                self.story.finished = True

    def _show(self) -> None:
        story = self.story
        self._screen.show(
            acked=f"{len(story.acked)} of {self._plan.lines}",
            pending=story.pending,
            failed=len(story.failed),
            batches=len(story.batches),
        )


def _equal(counts: Counter[str], plain: Counter[str]) -> Claim:
    if counts == plain:
        says = f"the word counts equal a plain count: {plain.total()} words, {len(plain)} different ones"
        return Claim(says=says, holds=True)
    wrong = sorted(word for word in plain | counts if plain[word] != counts[word])
    listed = ", ".join(f"{word!r} {counts[word]} instead of {plain[word]}" for word in wrong[:4])
    return Claim(says=f"the word counts differ from a plain count in {len(wrong)} words: {listed}", holds=False)


def _saved(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in folder.glob("batch=*/part-*.json"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            counts[row["word"]] += row["count"]
    return counts
