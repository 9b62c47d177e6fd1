"""Kills bolts in four languages at random: ``python -m tests.conformance.chaos``, or ``make chaos-clients``.

A *run* is some hundred trees on a topology of its own. Its bolts are the drivers of the conformance tests, one of each
language. Between them stand queues that deliver at least once: some messages twice, again what a bolt has not answered.
A proxy before the acker loses answers. Emits, too, are asked of the drivers; who reads the completions is not killed,
and emits again what failed or timed out. Every other run has no dedupe window: clients fold acks there, and nothing is
delivered twice but what a bolt has not answered. Each run is written to a file at once, so what was stopped goes on.
"""

import heapq
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from acker_client import Acker, Completion

from bench import baseline
from tests.conformance.programs import LANGUAGES, Driver, DriverError, DriverGone, driver_of
from tests.conformance.proxy import Fault, FaultProxy, fault_proxy
from tests.support.servers import AckerProcess, acker_serve

KEPT = Path(__file__).with_name("chaos.jsonl")
RUN = 1_000
"""Trees of a run."""
MESSAGE_TIMEOUT_MS = 10_000
STAGES = 4
"""Each tree has a path through so many bolts, one of each language; some messages have a second child."""
BRANCHES = 0.4
TWICE, LOST_ANSWERS = 0.05, 0.02
"""The share of messages that are delivered twice, and that of requests whose answer is lost."""
FAILED, LEFT_OPEN = 0.005, 0.01
DELAY_S = 0.05
"""A message is on its way for up to so long."""
WORKERS = 6
"""Messages that one bolt works on at the same time."""
MAX_PENDING = 150
BETWEEN_KILLS_S = (0.3, 1.2)
STUCK_S = 120.0
"""A run in which no tree ends for so long has lost something."""
SPOUT = "chaos"


@dataclass(kw_only=True)
class Outcome:
    """What happened in one run, and what the audit found."""

    seed: int
    number: int
    commit: str
    trees: int
    languages: list[str]
    kills: dict[str, int] = field(default_factory=dict)
    deliveries: int = 0
    twice: int = 0
    redelivered: int = 0
    lost_answers: int = 0
    emits: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    too_early: list[str] = field(default_factory=list)
    never: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def dedupes(self) -> bool:
        """Whether its topology has a dedupe window."""
        return self.number % 2 == 0

    @property
    def key(self) -> tuple[int, int, int, list[str], str]:
        """What tells runs apart."""
        return self.seed, self.number, self.trees, self.languages, self.commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message on its way to a bolt: ``path`` is where it stands in its tree, as "0.1.0"."""

    tree: int
    root: str
    path: str
    header: str

    @property
    def stage(self) -> int:
        """How many bolts are before it."""
        return self.path.count(".")


class Shapes:
    """The trees: how many children each message has, the same at each delivery."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def children(self, tree: int, path: str) -> list[str]:
        """Return the keys of the children of a message."""
        if path.count(".") + 1 >= STAGES:
            return []
        return ["0", "1"] if self._source(tree, path).random() < BRANCHES else ["0"]

    def language(self, tree: int, path: str, languages: list[str]) -> str:
        """Return whose bolt a message is for: down each path a tree passes those of all languages."""
        turned = self._source(tree, "").sample(languages, len(languages))
        return turned[path.count(".") % len(turned)]

    def paths(self, tree: int) -> Iterator[str]:
        """Return all messages of a tree."""
        waiting = ["0"]
        while waiting:
            path = waiting.pop()
            yield path
            waiting += [f"{path}.{key}" for key in self.children(tree, path)]

    def _source(self, tree: int, path: str) -> random.Random:
        return random.Random(f"{self._seed} {tree} {path}")


class Audit:
    """Compares the completions of roots with the messages that were worked on."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._worked: set[tuple[str, str]] = set()
        self.too_early: list[str] = []

    def work(self, message: Message) -> None:
        """Note that a message is worked on; nobody has asked for its ack yet."""
        self._worked.add((message.root, message.path))

    def acked(self, tree: int, root: str) -> None:
        """Check that a root which is reported as acked has no message that nobody worked on."""
        missing = [path for path in self._shapes.paths(tree) if (root, path) not in self._worked]
        if missing:
            self.too_early.append(f"tree {tree}, root {root}: {', '.join(missing)}")


class Queue:
    """The queue of one language: each message comes when it is due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Message]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, message: Message, delay_s: float) -> None:
        """Put a message in, which comes after a while."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), message))
            self._changed.notify()

    def take(self) -> Message | None:
        """Wait for a message; None once the queue is closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait_s)
        return None

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Bolt:
    """The driver of a language, which is killed while others ask it."""

    def __init__(self, driver: Driver, url: str) -> None:
        self._driver = driver
        self._url = url
        self._topology = ""
        self._alive = threading.Lock()

    def open(self, topology: str) -> None:
        """Give it a client of a topology."""
        with self._alive:
            self._topology = topology
            self._driver.call("reset")
            self._driver.call("open", url=self._url, topology=topology)

    def ask(self, do: str, **arguments: Any) -> Any:
        """Carry out a command. Raises `DriverGone` and `DriverError`."""
        with self._alive:
            pending = self._driver.begin({"do": do} | arguments)
        return pending.answer()

    def kill(self) -> None:
        """kill -9, and start it again."""
        with self._alive:
            self._driver.kill()
            self._driver.start()
            self._driver.call("open", url=self._url, topology=self._topology)


class Run:
    """One run: threads that emit, work, read and kill until all trees have ended."""

    def __init__(self, bolts: dict[str, Bolt], outcome: Outcome, *, topology: str, url: str) -> None:
        self.outcome = outcome
        self._bolts = bolts
        self._topology = topology
        self._url = url
        self._shapes = Shapes(outcome.seed)
        self._audit = Audit(self._shapes)
        self._queues = {name: Queue() for name in bolts}
        self._chance = random.Random(f"{outcome.seed} {outcome.number}")
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        first = outcome.number * outcome.trees
        self._left = [*reversed(range(first, first + outcome.trees))]
        self._open = {*self._left}
        self._roots: dict[int, str] = {}
        """Of each tree that is pending, the root that it was emitted as the last time."""
        self._moved_at = time.monotonic()
        self._over = threading.Event()

    def run(self) -> None:
        """Run until all trees have ended, or none does any more; what it comes to stands in ``outcome``."""
        began = time.monotonic()
        works = [self._work_on(name) for name in self._bolts for _ in range(WORKERS)]
        emits = [self._emit_by(name) for name in self._bolts]
        threads = [threading.Thread(target=each) for each in (*works, *emits, self._read, self._kill)]
        for bolt in self._bolts.values():
            bolt.open(self._topology)
        for thread in threads:
            thread.start()
        while self._open and time.monotonic() - self._moved_at < STUCK_S:
            self._over.wait(0.1)
        self._over.set()
        for queue in self._queues.values():
            queue.close()
        for thread in threads:
            thread.join()
        self._tell(time.monotonic() - began)

    def _tell(self, seconds: float) -> None:
        outcome = self.outcome
        outcome.kills, outcome.outcomes = dict(self._kills), dict(self._outcomes)
        outcome.deliveries, outcome.twice = self._counts["deliveries"], self._counts["twice"]
        outcome.redelivered, outcome.emits = self._counts["redelivered"], self._counts["emits"]
        outcome.too_early, outcome.never = self._audit.too_early, sorted(self._open)
        outcome.seconds = round(seconds, 1)

    def _emit_by(self, name: str) -> Callable[[], None]:
        def emit() -> None:
            while not self._over.is_set():
                tree = self._next_tree()
                if tree is None:
                    self._over.wait(0.02)
                    continue
                try:
                    found = self._bolts[name].ask(
                        "emit", spout=SPOUT, shared=True, message_id=str(tree), children=["0"]
                    )
                except (DriverGone, DriverError):  # whether it is emitted is not known: once more, as another root
                    self._emit_again(tree)
                    continue
                self._send(Message(tree=tree, root=found["root_id"], path="0", header=found["headers"][0]), tree)

        return emit

    def _next_tree(self) -> int | None:
        with self._lock:
            if not self._left or len(self._roots) >= MAX_PENDING:
                return None
            tree = self._left.pop()
            self._roots[tree] = ""
            self._counts["emits"] += 1
            return tree

    def _emit_again(self, tree: int) -> None:
        with self._lock:
            self._roots.pop(tree, None)
            if tree in self._open:
                self._left.append(tree)

    def _send(self, message: Message, tree: int | None = None) -> None:
        """Send a message to its bolt, some twice; with a ``tree`` it is the first of a root."""
        with self._lock:
            if tree is not None:
                self._roots[tree] = message.root
            again = self.outcome.dedupes and self._chance.random() < TWICE
            delays = [self._chance.uniform(0, DELAY_S) for _ in range(2 if again else 1)]
            self._counts["twice"] += again
        language = self._shapes.language(message.tree, message.path, [*self._bolts])
        for delay_s in delays:
            self._queues[language].put(message, delay_s)

    def _work_on(self, name: str) -> Callable[[], None]:
        def work() -> None:
            while (message := self._queues[name].take()) is not None:
                self._audit.work(message)  # the work is done; what follows is its ack
                with suppress(DriverGone, DriverError):
                    if self._process(name, message):
                        continue
                self._redeliver(message)

        return work

    def _process(self, name: str, message: Message) -> bool:
        """Let a bolt process a message, and send its children on; False if the message has to come again."""
        with self._lock:
            drawn = self._chance.random()
            self._counts["deliveries"] += 1
        then = "fail_tuple" if drawn < FAILED else "raise" if drawn < FAILED + LEFT_OPEN else "return"
        found = self._bolts[name].ask(
            "process",
            header=message.header,
            component=f"stage-{message.stage}",
            on_error="leave_open",
            children=(keys := self._shapes.children(message.tree, message.path)),
            then=then,
            reason="by chance",
        )
        if then == "return":
            for key, header in zip(keys, found["headers"], strict=True):
                path = f"{message.path}.{key}"
                self._send(Message(tree=message.tree, root=message.root, path=path, header=header))
        return then != "raise"

    def _redeliver(self, message: Message) -> None:
        """Deliver a message again, to the bolt of any language."""
        with self._lock:
            name = self._chance.choice([*self._bolts])
            self._counts["redelivered"] += 1
        self._queues[name].put(message, DELAY_S)

    def _read(self) -> None:
        with Acker(self._url, topology=self._topology) as acker:
            spout = acker.shared_spout(SPOUT)
            for completion in spout.completions(stop=self._over.is_set, poll_timeout=1.0):
                self._end(completion)

    def _end(self, completion: Completion) -> None:
        tree = int(completion.message_id or "-1")
        if completion.outcome == "acked":
            self._audit.acked(tree, completion.root_id)
        with self._lock:
            self._outcomes[completion.outcome] += 1
            self._moved_at = time.monotonic()
            if completion.outcome == "acked":
                self._open.discard(tree)
            if self._roots.get(tree) != completion.root_id:
                return  # it was emitted again meanwhile, or its emit was never answered
            del self._roots[tree]
            if tree in self._open:
                self._left.append(tree)

    def _kill(self) -> None:
        chance = random.Random(f"kill {self.outcome.seed} {self.outcome.number}")
        while True:  # the first at once: a run may be over before the next
            name = chance.choice([*self._bolts])
            self._bolts[name].kill()
            self._kills[name] += 1
            if self._over.wait(chance.uniform(*BETWEEN_KILLS_S)):
                return


def weather(seed: int) -> Iterator[Fault]:
    """Lose the answers of some requests."""
    chance = random.Random(f"weather {seed}")
    while True:
        yield Fault(fate="lose" if chance.random() < LOST_ANSWERS else "pass")


def run(bolts: dict[str, Bolt], acker: AckerProcess, proxy: FaultProxy, outcome: Outcome) -> None:
    """Run once, on a topology of its own."""
    topology = f"chaos-{outcome.seed}-{outcome.number}"
    settings = {"message_timeout_ms": MESSAGE_TIMEOUT_MS, "dedupe_window_ms": None if outcome.dedupes else 0}
    acker.http.put(f"/v1/topologies/{topology}", json=settings).raise_for_status()
    proxy.reset(storm=False)
    proxy.befall(weather(outcome.seed * 1_000 + outcome.number))
    Run(bolts, outcome, topology=topology, url=proxy.url).run()
    outcome.lost_answers = sum(each.fate == "lose" for each in proxy.requests)


def main(
    trees: Annotated[int, typer.Option(help="Run so many trees", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="Chooses the trees, and what befalls them")] = 1,
    client: Annotated[list[str] | None, typer.Option(help=f"Of these alone: {', '.join(LANGUAGES)}")] = None,
    runs: Annotated[int | None, typer.Option(help="Stop after so many further runs", min=1)] = None,
    kept: Annotated[Path, typer.Option(help="The file of the runs that are done")] = KEPT,
) -> None:
    """Kill bolts of four languages at random; exit with 1 if a tree was completed too early, or never."""
    names = client or [*LANGUAGES]
    for name in names:
        if LANGUAGES[name].missing:
            sys.exit(f"the client for {name} needs {', '.join(LANGUAGES[name].missing)}")
    commit, size = baseline.head(), min(trees, RUN)
    outcomes = [
        Outcome(seed=seed, number=number, commit=commit, trees=size, languages=names) for number in range(trees // size)
    ]
    done = {json.dumps(each.key): each for each in read(kept)}
    found = [done.get(json.dumps(each.key), each) for each in outcomes]
    missing = [each for each in found if not each.seconds][:runs]
    with ExitStack() as stack:
        if missing:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acker-chaos-")))
            acker = stack.enter_context(acker_serve(folder, "--data-dir", str(folder / "data")))
            proxy = stack.enter_context(fault_proxy(int(acker.url.rpartition(":")[2])))
            bolts = {name: Bolt(stack.enter_context(driver_of(LANGUAGES[name], folder)), proxy.url) for name in names}
        for outcome in missing:
            run(bolts, acker, proxy, outcome)
            with kept.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(outcome)) + "\n")
            typer.echo(f"run {outcome.number + 1} of {len(outcomes)}: {tell([outcome])}")
    ran = [each for each in found if each.seconds]
    typer.echo(f"{len(ran)} of {len(outcomes)} runs: {tell(ran)}")
    if any(each.too_early or each.never for each in ran):
        typer.echo("\n".join(line for each in ran for line in (*each.too_early, f"never: {each.never}")))
        sys.exit(1)


def read(kept: Path) -> list[Outcome]:
    """Read the runs that are done."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def tell(outcomes: list[Outcome]) -> str:
    """Describe what runs came to."""
    kills = sum((Counter(each.kills) for each in outcomes), Counter[str]())
    ended = sum((Counter(each.outcomes) for each in outcomes), Counter[str]())
    killed = ", ".join(f"{name} {count}" for name, count in sorted(kills.items()))
    roots = ", ".join(f"{name} {count:,}" for name, count in sorted(ended.items()))
    return (
        f"{sum(each.trees for each in outcomes):,} trees, "
        f"completed too early {sum(len(each.too_early) for each in outcomes)}, "
        f"never completed {sum(len(each.never) for each in outcomes)}; "
        f"{sum(each.deliveries for each in outcomes):,} deliveries, "
        f"{sum(each.twice for each in outcomes):,} messages twice, "
        f"{sum(each.redelivered for each in outcomes):,} again after a kill or an error, "
        f"{sum(each.lost_answers for each in outcomes):,} answers lost, "
        f"{kills.total():,} kills ({killed}), "
        f"{sum(each.emits for each in outcomes):,} emits, completions: {roots}; "
        f"{sum(each.seconds for each in outcomes):,.0f} s"
    )


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
