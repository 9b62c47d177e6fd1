"""The client of a language under load: ``python -m tests.faults_long.languages PLAN``, the plan as JSON; until SIGTERM.

It asks the driver of the conformance tests to emit and to process. A proxy between that and the acker records each
request as the client sends it, and loses some answers.
"""

import contextlib
import itertools
import json
import random
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acker_protocol import routes

from tests.conformance.programs import LANGUAGES, Driver, DriverError, DriverGone, building
from tests.conformance.proxy import Answer, Fault, FaultProxy, Passed
from tests.faults_long.trees import HELD_MS, TIMEOUT_MS
from tests.histories.records import History

LOST, DUPLICATED = 0.03, 0.02
"""The shares of requests whose answer is lost, and of those that are sent twice."""

FAILED, DROPPED, LEFT_OPEN, AGAIN = 0.02, 0.02, 0.03, 0.05
"""The shares of messages that fail, that are dropped, that are never acked, and that are delivered once more."""

DEPTH = 2
RETRY_MS = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is loaded: ``command`` starts the driver, ``port`` is that of the acker; so many trees a second."""

    history: str
    name: str
    seed: int
    command: list[str]
    port: int
    topology: str
    spout_task: str
    dedupes: bool
    rate: float
    workers: int = 3

    def dump(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))


class RecordingProxy(FaultProxy):
    """A proxy that records each request that it passes on, and its answer, also where that is lost behind it."""

    def __init__(self, acker_port: int, history: History) -> None:
        super().__init__(acker_port)
        self._history = history
        self._writing = threading.Lock()

    def ask(self, passed: Passed, headers: dict[str, str]) -> Answer:
        """Send a request to the acker."""
        kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
        with self._writing:
            number = self._history.sent(passed.method, passed.path, key=passed.key, content_type=kind, body=passed.body)
        answer = super().ask(passed, headers)
        replayed = any(name.lower() == routes.IDEMPOTENCY_REPLAYED.lower() for name in answer.headers)
        with self._writing:
            self._history.answered(number, answer.status, replayed=replayed, body=answer.body)
        return answer


class Load:
    """Trees through a driver, each from its emit to its leaves."""

    def __init__(self, plan: Plan, driver: Driver) -> None:
        self._plan = plan
        self._driver = driver
        self._numbers = itertools.count()
        self._ended = threading.Event()

    def end(self, *_: object) -> None:
        """Begin no further tree."""
        self._ended.set()

    def run(self) -> None:
        """Load until told to end."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(self._plan.workers)]
        for thread in threads:
            thread.start()
        while not self._ended.wait(0.5):
            pass
        for thread in threads:
            thread.join()

    def _work(self, number: int) -> None:
        chance = random.Random(f"{self._plan.seed} {self._plan.name} {number}")
        while not self._ended.is_set():
            began = time.monotonic()
            with contextlib.suppress(DriverError):
                self._tree(chance)
            self._ended.wait(max(0.0, began + self._plan.workers / self._plan.rate - time.monotonic()))

    def _tree(self, chance: random.Random) -> None:
        is_open = chance.random() < LEFT_OPEN
        found = self._driver.call(
            "emit",
            spout=self._plan.spout_task,
            shared=True,
            message_id=f"{self._plan.name}-{next(self._numbers)}",
            message_timeout_ms=chance.randrange(*HELD_MS) if is_open else TIMEOUT_MS,
            children=["0", "1"][: chance.choice((1, 2))],
        )
        waiting = [(header, 0) for header in found["headers"]]
        if is_open:
            waiting.pop()
        while waiting:
            header, depth = waiting.pop()
            for _ in range(2 if self._plan.dedupes and chance.random() < AGAIN else 1):
                waiting += [(each, depth + 1) for each in self._process(header, depth)]

    def _process(self, header: str, depth: int) -> list[str]:
        """Process a message, in the same way at each delivery; return the headers of its children."""
        chance = random.Random(f"{self._plan.seed} {header}")
        drawn = chance.random()
        then = "fail_tuple" if drawn < FAILED else "drop_tuple" if drawn < FAILED + DROPPED else "return"
        count = chance.choice((0, 1, 2)) if depth < DEPTH and then == "return" else 0
        children = [str(key) for key in range(count)]
        found = self._driver.call(
            "process", header=header, component="bolt", children=children, then=then, reason="by chance"
        )
        return list(found["headers"])


def weather(seed: int) -> Any:
    """Lose the answers of some requests, and send some twice."""
    chance = random.Random(f"weather {seed}")
    while True:
        drawn = chance.random()
        yield Fault(fate="lose" if drawn < LOST else "duplicate" if drawn < LOST + DUPLICATED else "pass")


def commands() -> dict[str, list[str]]:
    """Build the drivers of all languages that this machine has, and return the commands that start them."""
    found: dict[str, list[str]] = {}
    for name, language in LANGUAGES.items():
        if not language.missing:
            with building(name):
                found[name] = language.build()
    return found


def main(plan: Plan) -> None:
    """Load the acker as planned."""
    with History(Path(plan.history)) as history:
        proxy = RecordingProxy(plan.port, history)
        proxy.befall(weather(plan.seed))
        serving = threading.Thread(target=proxy.serve, daemon=True)
        serving.start()
        driver = Driver(plan.command, log=Path(plan.history).with_suffix(".driver"))
        try:
            driver.call("open", url=proxy.url, topology=plan.topology, retry_timeout_ms=RETRY_MS)
            load = Load(plan, driver)
            signal.signal(signal.SIGTERM, load.end)
            with contextlib.suppress(DriverGone):
                load.run()
                with contextlib.suppress(DriverError):
                    driver.call("flush")
        finally:
            driver.kill()
            proxy.stop()
            serving.join()


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
