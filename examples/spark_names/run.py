"""The run from start to end: an acker, the spout and the driver, what they tell, and what that proves."""

import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from examples.spark_names.plan import (
    DEDUPE_S,
    FAILS,
    MESSAGE_TIMEOUT_S,
    MESSAGES,
    THROWS_AT,
    TOPOLOGY,
    Plan,
    edges_of,
    names_of,
)
from examples.support.acker import count_pending, create_topology, start_acker
from examples.support.processes import Child, Died, Processes, processes_in
from examples.support.reports import Reports
from examples.support.screen import Claim, Screen

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
            for message in MESSAGES:
                screen.log(f"{message}: {' '.join(names_of(message))}, a tree of {edges_of(message)} edges")
            round_ = Round(plan, processes, screen)
            try:
                round_.follow()
                return screen.conclude(round_.prove())
            finally:
                round_.driver.kill_group()


@dataclass(slots=True, kw_only=True)
class Story:
    """What was reported: who was greeted how often in which attempt, and how each attempt ended."""

    greetings: Counter[tuple[str, int]] = field(default_factory=Counter)
    outcomes: dict[tuple[str, int], str] = field(default_factory=dict)
    thrown: list[str] = field(default_factory=list)
    finished: bool = False


class Round:
    """The spout and the driver, and what they have reported."""

    def __init__(self, plan: Plan, processes: Processes, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self.story = Story()
        self._spout, self.driver = (self._start(processes, name) for name in ("spout", "driver"))
        self._reports = [Reports(child.log) for child in (self.driver, self._spout)]

    def follow(self) -> None:
        """Follow until the spout has finished. Raises `Died`, ``TimeoutError``."""
        until = time.monotonic() + self._plan.within_s
        while not self.story.finished:
            if time.monotonic() > until:
                raise TimeoutError(f"not all was acked within {self._plan.within_s:.0f} s:\n{self.driver.tail()}")
            for child in (self._spout, self.driver):
                if child.process.poll():
                    raise Died(f"{child.name} ended with code {child.process.returncode}:\n{child.tail()}")
            self._listen()
            time.sleep(LOOK_S)
        self._listen()

    def prove(self) -> list[Claim]:
        """Compare what was reported with what should have happened."""
        story = self.story
        ought = {(name, 1): 1 for message in MESSAGES for name in names_of(message)}
        ought |= {(THROWS_AT, 1): 2} | {(name, 2): 1 for name in names_of("south")}
        pending = count_pending(self._plan.acker, TOPOLOGY)
        again = Counter(attempt for attempt, times in story.greetings.items() if times > 1)
        return [
            Claim(
                says=f"{len(ought)} names were greeted once an attempt, but for {', '.join(name for name, _ in again)}",
                holds=story.greetings == ought,
            ),
            Claim(
                says=f"greeting {THROWS_AT} threw: his tuple alone was run again, and the tree ended without a replay",
                holds=len(story.thrown) == 1 and story.outcomes.get(("heroes", 1)) == "acked",
            ),
            Claim(
                says=f"greeting {FAILS} failed: her message alone was replayed, and acked in its second attempt",
                holds=story.outcomes == {("heroes", 1): "acked", ("south", 1): "failed", ("south", 2): "acked"},
            ),
            Claim(says=f"{pending} trees are pending", holds=pending == 0),
        ]

    def _start(self, processes: Processes, name: str) -> Child:
        return processes.start_module(name, f"examples.spark_names.{name}", json.dumps(asdict(self._plan)))

    def _listen(self) -> None:
        for report in (report for reports in self._reports for report in reports.read()):
            self._note(report)
        greeted = sum(self.story.greetings.values())
        acked = sum(1 for outcome in self.story.outcomes.values() if outcome == "acked")
        self._screen.show(greeted=greeted, trees_acked=acked, trees_failed=len(self.story.outcomes) - acked)

    def _note(self, report: dict[str, object]) -> None:
        match report:
            case {"greeting": str(name), "attempt": int(attempt)}:
                self.story.greetings[name, attempt] += 1
            case {"message": str(message), "attempt": int(attempt), "outcome": str(outcome), "reason": reason}:
                self.story.outcomes[message, attempt] = outcome
                why = f" ({reason}): it is replayed" if reason else ""
                self._screen.log(f"{message}, attempt {attempt}: {outcome}{why}")
            case {"stage": str(stage), "texts": list(texts)}:
                self._screen.log(f"{stage}: {', '.join(texts)}")
            case {"failed": str(cause)}:
                self.story.thrown.append(cause)
                self._screen.log(f"the query ended ({cause}) and goes on from its checkpoint")
            case {"finished": True}:
                self.story.finished = True
