"""Runs one round: its load, its faults, its end; and audits the histories of all clients."""

import gc
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acker_protocol.states import TopologyRules

from tests.faults_long.clock import STEP_MS
from tests.faults_long.faults import NotHere, befall
from tests.faults_long.lab import TOPOLOGIES, WINDOW_MS, Lab, opened
from tests.faults_long.programs import NotSettled
from tests.faults_long.schedule import Round
from tests.histories.explain import CLOCK_MS
from tests.histories.promise import CLAUSES, Span, audit
from tests.histories.roots import read_histories
from tests.support.servers import PROGRAM

AFTER_MS = 3_000.0
"""For so long after a fault nothing counts as quiet."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a round came to, as a line of the file of rounds; the ``clauses`` are roots that break the promise."""

    seed: int
    number: int
    commit: str
    store: str
    processes: int
    own_clocks: bool
    faults: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    clients: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    audit_seconds: float = 0.0
    operations: int = 0
    requests: int = 0
    attempts: int = 0
    unknown: int = 0
    roots: int = 0
    tellings: int = 0
    repeated: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    clauses: dict[str, list[str]] = field(default_factory=dict)
    timeouts_in_quiet: int = 0
    latest_ms: float | None = None
    latest_in_quiet_ms: float | None = None
    not_settled: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept, and all came back after its faults."""
        return not self.not_settled and not any(self.clauses.values())


def run(
    round_: Round,
    folder: Path,
    *,
    commit: str,
    rate: float,
    drivers: Mapping[str, list[str]],
    tell: Callable[[str], None] = print,
    program: Sequence[str] = PROGRAM,
    environments: Sequence[Mapping[str, str]] = ({}, {}),
) -> Outcome:
    """Run a round in a folder of its own, which is removed before, and again if the promise was kept."""
    outcome = Outcome(
        seed=round_.seed,
        number=round_.number,
        commit=commit,
        store=round_.store,
        processes=round_.processes,
        own_clocks=round_.own_clocks,
    )
    began, spans = time.monotonic(), list[Span]()
    if folder.exists():  # of a run that was stopped in the middle of this round
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with opened(round_, folder, rate=rate, drivers=drivers, program=program, environments=environments) as lab:
        try:
            _load(lab, outcome, spans, tell)
            lab.drain()
        except NotSettled as error:
            outcome.not_settled = str(error)
            tell(f"  not settled: {error}")
            for log in (folder / "store").glob("*/log"):  # its disks go with the round
                shutil.copy(log, folder / f"store-{log.parent.name}.log")
        outcome.clients = dict(
            Counter(each.kind for each in (*lab.loads, *lab.readers) for _ in range(each.generation))
        )
        histories = lab.histories
    outcome.seconds = round(time.monotonic() - began, 1)
    _audit(outcome, round_, histories, spans, folder)
    if outcome.is_kept:
        shutil.rmtree(folder)
    return outcome


def _load(lab: Lab, outcome: Outcome, spans: list[Span], tell: Callable[[str], None]) -> None:
    lab.begin()
    faults: Counter[str] = Counter()
    for fault in lab.round.faults:
        time.sleep(fault.after_s)
        began = time.time() * 1000
        try:
            befall(lab, fault)
        except NotHere as reason:
            outcome.left_out[fault.kind] = str(reason)
            continue
        finally:
            spans.append((began, time.time() * 1000 + AFTER_MS))
            outcome.faults = dict(faults)
        tell(f"  {fault.kind}: {(time.time() * 1000 - began) / 1000:.1f} s")
        faults[fault.kind] += 1
        outcome.faults = dict(faults)
    time.sleep(1)


def _audit(outcome: Outcome, round_: Round, histories: Sequence[Path], spans: Sequence[Span], folder: Path) -> None:
    began = time.monotonic()
    rules = {
        topology: TopologyRules(message_timeout_ms=WINDOW_MS, dedupe_window_ms=window_ms, retention_ms=WINDOW_MS)
        for topology, window_ms in TOPOLOGIES.items()
    }
    gc.disable()  # millions of values, none of which goes before the end
    try:
        clock_ms = CLOCK_MS + (STEP_MS if round_.own_clocks else 0)
        found = audit(read_histories(histories), rules, spans, clock_ms=clock_ms)
    finally:
        gc.enable()
    for name in ("operations", "requests", "attempts", "unknown", "roots", "tellings", "repeated"):
        setattr(outcome, name, getattr(found, name))
    outcome.outcomes = dict(found.outcomes)
    outcome.clauses = {clause: getattr(found, clause) for clause in CLAUSES}
    if outcome.not_settled:  # nobody has read to the end
        outcome.clauses["lost"] = []
    if not round_.own_clocks:  # a deadline that was set while a clock was wrong tells nothing
        outcome.latest_ms, outcome.latest_in_quiet_ms = found.latest_ms, found.latest_in_quiet_ms
        outcome.timeouts_in_quiet = found.timeouts_in_quiet
    if found.descriptions:
        (folder / "broken.txt").write_text("\n\n".join(found.descriptions) + "\n", encoding="utf-8")
    outcome.audit_seconds = round(time.monotonic() - began, 1)


def line_of(outcome: Outcome) -> str:
    """Describe what a round came to."""
    broken = ", ".join(f"{clause} {len(outcome.clauses.get(clause, []))}" for clause in CLAUSES)
    return (
        f"round {outcome.number}, {outcome.store}: {sum(outcome.faults.values())} faults, "
        f"{outcome.operations:,} operations, {outcome.roots:,} roots, {broken}; "
        f"{outcome.seconds:.0f} s, audited in {outcome.audit_seconds:.0f} s"
        + (f"; NOT SETTLED: {outcome.not_settled}" if outcome.not_settled else "")
    )


def document_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Add up what rounds came to, as docs/trust/results.py has it."""

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in outcomes)

    def added(name: str) -> dict[str, int]:
        summed = sum((Counter(getattr(each, name)) for each in outcomes), Counter[str]())
        return dict(sorted(summed.items()))

    stores: Counter[str] = Counter()
    for each in outcomes:
        stores[each.store] += sum(each.faults.values())
    broken = {clause: sum(len(each.clauses.get(clause, [])) for each in outcomes) for clause in CLAUSES}
    in_quiet = [each.latest_in_quiet_ms for each in outcomes if each.latest_in_quiet_ms is not None]
    latest = [each.latest_ms for each in outcomes if each.latest_ms is not None]
    return {
        "faults": added("faults"),
        "left_out": {kind: reason for each in outcomes for kind, reason in each.left_out.items()},
        "clients": added("clients"),
        "stores": dict(sorted(stores.items())),
        "rounds": len(outcomes),
        "rounds_with_own_clocks": total("own_clocks"),
        "clocks_stepped_by_s": STEP_MS / 1000,
        "processes": dict(Counter(f"--processes {each.processes}" for each in outcomes)),
        "operations": total("operations"),
        "requests": total("requests"),
        "attempts": total("attempts"),
        "without_answer": total("unknown"),
        "roots": total("roots"),
        "completions": added("outcomes"),
        "told_again": total("repeated"),
        "lost": broken["lost"],
        "early": broken["early"],
        "premature": broken["premature"],
        "twice": broken["twice"],
        "not_linearizable": broken["unexplained"],
        "not_settled": sum(bool(each.not_settled) for each in outcomes),
        "timeouts_in_quiet": total("timeouts_in_quiet"),
        "latest_timeout_s": max(in_quiet) / 1000 if in_quiet else None,
        "latest_timeout_in_faults_s": max(latest) / 1000 if latest else None,
    }
