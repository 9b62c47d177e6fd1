"""Kills members and the broker of a Kafka in random order: ``python -m tests.kafka.chaos``, or ``make chaos-kafka``.

Each seed runs with each group protocol, on topics of its own. Members are processes with a spout. They send each record
to a bolt, which loses or fails some. Meanwhile members join, leave, freeze and are killed, and so is the broker. An
auditor compares what the group has committed with what the bolt has processed. A run ends when the last record is
committed. It is written to a file at once, so what was stopped goes on where it was.
"""

import json
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from acker_client import Acker

from bench import baseline
from examples.support.acker import create_topology
from examples.support.kafka import KafkaBroker, running_kafka
from examples.support.processes import Child, Processes, processes_in
from tests.support.kafka import PROTOCOLS, member_config, produce
from tests.support.kafka_audit import Auditor, Bolt, read_offsets
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true

KEPT = Path(__file__).with_name("chaos.jsonl")
PARTITIONS = 3
MAX_MEMBERS = 4
MESSAGE_TIMEOUT_S = 10.0
LOST, FAILED = 0.01, 0.03
"""The shares of deliveries that the bolt loses and fails."""
FROZEN_S = (1.0, 9.0)
"""How long a member is frozen: shorter or longer than its session of six seconds."""
BROKER_AWAY_S = (0.5, 4.0)
PAUSE_S = (0.5, 3.0)
"""Between two events."""
EVENTS = 8
WITHIN_S = 300.0
"""A run that takes longer after its last event has lost something."""


@dataclass(kw_only=True)
class Outcome:
    """What happened in one run, and what the auditor found."""

    protocol: str
    seed: int
    commit: str
    records: int = 0
    events: dict[str, int] = field(default_factory=dict)
    deliveries: int = 0
    twice: int = 0
    went_back: int = 0
    samples: int = 0
    too_early: list[str] = field(default_factory=list)
    unprocessed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What tells runs apart."""
        return self.protocol, self.seed, self.records, self.commit


class Group:
    """The members of one run, and what happens to them."""

    def __init__(
        self, kafka: KafkaBroker, processes: Processes, task: dict[str, object], source: random.Random
    ) -> None:
        self.events: Counter[str] = Counter()
        self._kafka = kafka
        self._processes = processes
        self._task = task
        self._source = source
        self._members: list[Child] = []

    def join(self) -> None:
        """Start a member."""
        self.events["join"] += 1
        name = f"member-{self.events['join']}"
        self._members.append(self._processes.start_module(name, "tests.support.kafka_member", json.dumps(self._task)))

    def happen(self) -> None:
        """Let one event happen, drawn by chance among those that are possible now."""
        event: Callable[[], None] = self._source.choice(
            [self.join] * (len(self._members) < MAX_MEMBERS)
            + [self._kill, self._kill, self._leave, self._freeze] * bool(self._members)
            + [self._kill_broker]
        )
        event()

    def settle(self) -> None:
        """See that somebody is left to read the rest, and that nobody has ended by itself."""
        if not self._members:
            self.join()
        for member in self._members:
            assert member.runs, f"{member.name} ended with code {member.process.returncode}:\n{member.tail()}"

    def _take(self) -> Child:
        return self._members.pop(self._source.randrange(len(self._members)))

    def _kill(self) -> None:
        self.events["kill"] += 1
        self._take().kill()

    def _leave(self) -> None:
        self.events["leave"] += 1
        self._take().process.send_signal(signal.SIGTERM)

    def _freeze(self) -> None:
        self.events["freeze"] += 1
        member = self._source.choice(self._members)
        member.process.send_signal(signal.SIGSTOP)
        time.sleep(self._source.uniform(*FROZEN_S))
        member.process.send_signal(signal.SIGCONT)

    def _kill_broker(self) -> None:
        self.events["kill the broker"] += 1
        self._kafka.kill()
        time.sleep(self._source.uniform(*BROKER_AWAY_S))
        self._kafka.start()


def run(kafka: KafkaBroker, acker_url: str, folder: Path, outcome: Outcome, records: int) -> None:
    """Run one seed with one protocol; what it comes to stands in ``outcome``."""
    source, name, began = random.Random(f"{outcome.protocol} {outcome.seed}"), secrets.token_hex(4), time.monotonic()
    orders, work, topology, group = f"orders-{name}", f"work-{name}", f"topology-{name}", f"group-{name}"
    create_topology(acker_url, topology, message_timeout=MESSAGE_TIMEOUT_S)
    kafka.create_topic(work)
    kafka.create_topic(orders, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka, orders, records // PARTITIONS, partition=partition)
    outcome.records = records // PARTITIONS * PARTITIONS
    offsets = read_offsets(kafka, orders, PARTITIONS, outcome.records)
    config = member_config(kafka, group, outcome.protocol)
    task = {"acker": acker_url, "topology": topology, "orders": orders, "work": work, "max_uncommitted": 20}

    def chance() -> str | None:
        drawn = random.random()  # the bolt's thread has no share in the order of events
        return "lose" if drawn < LOST else "fail" if drawn < LOST + FAILED else None

    with ExitStack() as stack:
        acker = stack.enter_context(Acker(acker_url, topology=topology))
        bolt = Bolt(kafka, acker, work, chance=chance)
        stack.callback(bolt.stop)
        auditor = Auditor(kafka, group, orders, offsets, bolt.processed)
        stack.callback(auditor.stop)
        members = Group(kafka, stack.enter_context(processes_in(folder)), {**task, "config": config}, source)
        members.join()
        for _ in range(EVENTS):
            time.sleep(source.uniform(*PAUSE_S))
            members.happen()
        members.settle()
        eventually_true(lambda: auditor.is_complete, within=WITHIN_S)
        members.settle()
    all_ids = {f"{orders}/{partition}/{offset}" for partition, found in offsets.items() for offset in found}
    outcome.unprocessed = sorted(all_ids - bolt.processed)
    outcome.too_early, outcome.went_back = sorted(auditor.too_early), len(auditor.went_back)
    outcome.samples, outcome.events = auditor.samples, dict(members.events)
    outcome.deliveries, outcome.twice = bolt.tries.total(), sum(tries > 1 for tries in bolt.tries.values())
    outcome.seconds = round(time.monotonic() - began, 1)


def main(
    seeds: Annotated[int, typer.Option(help="Run so many seeds, each with both protocols", min=1)] = 20,
    records: Annotated[int, typer.Option(help="Records of a run", min=PARTITIONS)] = 600,
    kept: Annotated[Path, typer.Option(help="The file of the runs that are done")] = KEPT,
) -> None:
    """Kill members and the broker of a Kafka in random order; exit with 1 if a record was lost or committed early."""
    commit, done = baseline.head(), read(kept)
    whole = records // PARTITIONS * PARTITIONS
    cases = [(protocol, seed) for seed in range(1, seeds + 1) for protocol in PROTOCOLS]
    found = {(each.protocol, each.seed): each for each in done if each.key[2:] == (whole, commit)}
    missing = [case for case in cases if case not in found]
    with ExitStack() as stack:
        if missing:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acker-chaos-")))
            kafka = stack.enter_context(running_kafka(folder / "kafka"))
            acker = stack.enter_context(acker_serve(folder, "--data-dir", str(folder / "data")))
        for protocol, seed in missing:
            outcome = Outcome(protocol=protocol, seed=seed, commit=commit)
            run(kafka, acker.url, folder / f"{protocol}-{seed}", outcome, records)
            found[protocol, seed] = outcome
            with kept.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(outcome)) + "\n")
            typer.echo(f"{len(found)} of {len(cases)}: seed {seed}, {protocol}: {tell([outcome])}")
    outcomes = [found[case] for case in cases]
    for protocol in PROTOCOLS:
        typer.echo(f"{protocol}, {seeds} seeds: {tell([each for each in outcomes if each.protocol == protocol])}")
    if any(each.too_early or each.unprocessed for each in outcomes):
        sys.exit(1)


def read(kept: Path) -> list[Outcome]:
    """Read the runs that are done."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def tell(outcomes: list[Outcome]) -> str:
    """Describe what runs came to."""
    events = sum((Counter(each.events) for each in outcomes), Counter[str]())
    records, deliveries = sum(each.records for each in outcomes), sum(each.deliveries for each in outcomes)
    twice, happened = (
        sum(each.twice for each in outcomes),
        ", ".join(f"{name} {n}" for name, n in sorted(events.items())),
    )
    return (
        f"{records:,} records, {deliveries:,} deliveries; {happened}; "
        f"committed too early {sum(len(each.too_early) for each in outcomes)}, "
        f"unprocessed {sum(len(each.unprocessed) for each in outcomes)}, "
        f"worked on twice {twice / records:.1%}, {sum(each.samples for each in outcomes):,} samples, "
        f"{sum(each.seconds for each in outcomes):,.0f} s"
    )


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
