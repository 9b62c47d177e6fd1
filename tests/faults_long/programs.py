"""The clients of a round as processes: those that load, the clients of other languages, and those who are told."""

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults_long import languages, load, readers

SPOUTS = ("mail", "hook", "published")
"""The spout tasks of each topology: one that is read, one with a webhook, and one that may be published."""

LOADS = (
    ("json", "deduped", 0.12),
    ("packed", "deduped", 0.38),
    ("single", "deduped", 0.02),
    ("keyless", "deduped", 0.01),
    ("json", "plain", 0.10),
    ("packed", "plain", 0.35),
    ("keyless", "plain", 0.02),
)
"""The clients that load: their form, their topology, and their share of the rate."""

DRIVERS_OF_A_ROUND, TREES_OF_A_DRIVER = 2, 6.0
"""How many clients of other languages load a round, besides, and the trees that each begins in a second."""

READERS = 2

ENDS_S = 300.0


class NotSettled(AssertionError):
    """Something did not come back after its faults were over."""


@dataclass(slots=True, kw_only=True)
class Program:
    """A client as a process, that is started again under another name, with a history of its own, when it was killed.

    ``write`` gives the arguments of a generation of it.
    """

    name: str
    kind: str
    log: Path
    write: Callable[[int], Sequence[str]]
    generation: int = 0
    process: "subprocess.Popen[bytes]" = field(init=False)

    def start(self) -> None:
        """Start it, or its successor."""
        command = [sys.executable, "-m", *self.write(self.generation)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.generation += 1

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def end(self, within: float = ENDS_S) -> None:
        """SIGTERM, and wait until it has ended what it has begun. Raises `NotSettled`."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NotSettled(f"{self.name} did not end within {within} s of SIGTERM") from None
        if code not in (0, -signal.SIGTERM):  # one that has just been started ends at once, and has begun nothing
            raise NotSettled(f"{self.name} ended with {code}: {self.log.read_text()[-3_000:]}")


Write = Callable[[str, str], Sequence[str]]
"""Returns the arguments of a process by its name and the file of its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """What the clients of a round do: histories and logs in ``folder``, at ``rate`` operations a second in all.

    ``windows_ms`` are the dedupe windows of the topologies by their names. There are histories if it ``records``.
    """

    folder: Path
    seed: int
    urls: list[str]
    windows_ms: Mapping[str, int]
    rate: float
    redis_url: str
    records: bool = True

    def loads(self) -> Iterator[Program]:
        """Return the clients that load by plain HTTP."""
        for form, topology, share in LOADS:
            yield self._program(form, f"load-{form}-{topology}", self._load(form, topology, share))

    def drivers(self, commands: Mapping[str, list[str]], ports: Sequence[int], number: int) -> Iterator[Program]:
        """Return the clients of the languages of a round, by its number, each before another replica of the service."""
        for each, language in enumerate(languages_of(number, [*commands])):
            topology = [*self.windows_ms][(each + number // 2) % len(self.windows_ms)]
            write = self._driver(commands[language], topology, ports[each % len(ports)])
            yield self._program(language, f"load-{language}", write)

    def readers(self, spouts: Mapping[str, Mapping[str, Any]], hook_port: int) -> list[Program]:
        """Return those who are told; ``spouts`` are the callbacks of the spout tasks of each topology."""
        kinds: dict[str, list[list[str]]] = {"mailboxes": [], "webhook": [], "pubsub": []}
        for topology, callbacks in spouts.items():
            for spout_task, callback in callbacks.items():
                kinds[callback["kind"] if callback else "mailboxes"].append([topology, spout_task])
        pulled = kinds["mailboxes"] + kinds["pubsub"]
        found = [
            self._program("mailboxes", f"reader-{number}", self._reader("mailboxes", pulled[number::READERS], 0))
            for number in range(READERS)
        ]
        found.append(self._program("webhook", "hook", self._reader("webhook", [], hook_port)))
        if kinds["pubsub"]:
            found.append(self._program("pubsub", "subscriber", self._reader("pubsub", kinds["pubsub"], 0)))
        return found

    def _program(self, kind: str, name: str, write: Write) -> Program:
        def written(generation: int) -> Sequence[str]:
            own = f"{name}-{generation}"
            return write(own, str(self.folder / f"{own}.history") if self.records else "")

        return Program(name=name, kind=kind, log=self.folder / f"{name}.log", write=written)

    def _load(self, form: str, topology: str, share: float) -> Write:
        def write(name: str, history: str) -> Sequence[str]:
            plan = load.Plan(
                history=history,
                name=name,
                seed=self.seed,
                urls=self.urls,
                topology=topology,
                dedupes=self.windows_ms[topology] > 0,
                spout_tasks=[*SPOUTS],
                form=form,
                rate=self.rate * share,
            )
            return ("tests.faults_long.load", plan.dump())

        return write

    def _driver(self, command: list[str], topology: str, port: int) -> Write:
        def write(name: str, history: str) -> Sequence[str]:
            plan = languages.Plan(
                history=history,
                name=name,
                seed=self.seed,
                command=command,
                port=port,
                topology=topology,
                spout_task=SPOUTS[0],
                dedupes=self.windows_ms[topology] > 0,
                rate=TREES_OF_A_DRIVER,
            )
            return ("tests.faults_long.languages", plan.dump())

        return write

    def _reader(self, kind: str, spouts: list[list[str]], port: int) -> Write:
        def write(name: str, history: str) -> Sequence[str]:
            plan = readers.Plan(
                history=history,
                name=name,
                seed=self.seed,
                urls=self.urls,
                spouts=spouts,
                port=port,
                redis_url=self.redis_url,
            )
            return ("tests.faults_long.readers", kind, plan.dump())

        return write


def languages_of(number: int, names: Sequence[str]) -> list[str]:
    """Return the languages whose clients load a round: two of them, others in the next one."""
    turned = itertools.islice(itertools.cycle(names), number * DRIVERS_OF_A_ROUND, None) if names else iter(())
    return [*dict.fromkeys(itertools.islice(turned, DRIVERS_OF_A_ROUND))]
