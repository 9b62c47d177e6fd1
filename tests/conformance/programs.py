"""The driver program of each language: how it is built and started, and how it is asked."""

import contextlib
import fcntl
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWER_S = 100.0
"""How long an answer may take, on a busy machine; each wait of a scenario is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A client's language: ``needs`` are the programs of this machine that build and run its driver.

    ``build`` makes the driver, and returns the command that starts it.
    """

    name: str
    needs: tuple[str, ...] = ()
    build: Callable[[], list[str]]

    @property
    def missing(self) -> list[str]:
        """The programs that this machine does not have."""
        return [program for program in self.needs if shutil.which(program) is None]


class DriverError(Exception):
    """The error that a command was answered with."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class DriverGone(AssertionError):
    """The driver ended before it answered."""


class Driver:
    """A driver program that runs; any number of commands may wait for their answers."""

    def __init__(self, command: list[str], *, log: Path) -> None:
        self._command = command
        self._log = log
        self._numbers = itertools.count(1)
        self.start()

    def start(self) -> None:
        """Start the program, or start it again."""
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("ACKER_")},
            )
        self._reader = threading.Thread(target=self._read, args=(self._process, self._waiting), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    def kill(self) -> None:
        """kill -9; whatever waited for an answer gets none."""
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """Close its input, which ends it, and return the exit code."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            return self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reap()

    def begin(self, command: dict[str, Any]) -> "Pending":
        """Send a command, and return what waits for its answer."""
        number = next(self._numbers)
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._waiting[number] = answers
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number} | command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            answers.put({"gone": True})
        return Pending(command=command, answers=answers, log=self._log)

    def call(self, do: str, **arguments: Any) -> Any:
        """Send a command, and return its answer. Raises `DriverError`."""
        return self.begin({"do": do} | arguments).answer()

    def _read(
        self, process: "subprocess.Popen[bytes]", waiting: dict[int, "queue.SimpleQueue[dict[str, Any]]"]
    ) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            waiting.pop(found["id"]).put(found)
        for answers in list(waiting.values()):
            answers.put({"gone": True})

    def _reap(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A command whose answer has not been read."""

    command: dict[str, Any]
    answers: "queue.SimpleQueue[dict[str, Any]]"
    log: Path

    def answer(self) -> Any:
        """Wait for the answer. Raises `DriverError` and `DriverGone`."""
        try:
            found = self.answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise AssertionError(f"{self.command} was not answered; the driver said:\n{self._said()}") from None
        if "gone" in found:
            raise DriverGone(f"the driver ended before it answered {self.command}; it said:\n{self._said()}")
        if "error" in found:
            raise DriverError(found["error"])
        return found["ok"]

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]


@contextlib.contextmanager
def driver_of(language: Language, folder: Path) -> Iterator[Driver]:
    """Run the driver of a language until the block is left."""
    driver = Driver(_built(language), log=folder / f"{language.name}.log")
    try:
        yield driver
    finally:
        driver.stop()


def _built(language: Language) -> list[str]:
    with building(language.name):
        return language.build()


@contextlib.contextmanager
def building(language: str) -> Iterator[None]:
    """Keep the folder of a client to this worker, while it is built there."""
    with (Path(tempfile.gettempdir()) / f"acker-conformance-{language}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _python() -> list[str]:
    return [sys.executable, str(Path(__file__).parent / "python_driver.py")]


def _typescript() -> list[str]:
    folder = ROOT / "client/typescript"
    _run("make", "--silent", "client/typescript/node_modules/.package-lock.json", cwd=ROOT)
    _run("npm", "run", "--silent", "build:tests", cwd=folder)
    return ["node", "--enable-source-maps", str(folder / "build/conformance/driver.js")]


def _go() -> list[str]:
    driver = ROOT / "client/go/build/driver"
    _run("go", "test", "-vet=off", "-c", "-o", str(driver), ".", cwd=ROOT / "client/go")
    return [str(driver), "-driver"]


def java_classpath() -> str:
    """Compile the client for Java and its tests, and return the path of their classes and of what they need."""
    folder = ROOT / "client/java"
    needed = folder / "target/driver.classpath"
    build = ("test-compile", "dependency:build-classpath", f"-Dmdep.outputFile={needed}")
    _run("mvn", "--quiet", "--batch-mode", *build, cwd=folder)
    return f"{folder}/target/test-classes:{folder}/target/classes:{needed.read_text().strip()}"


def _java() -> list[str]:
    # it is killed and started again: what a JVM does for a long run costs more than that
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", java_classpath(), "example.acker.Driver"]


def _run(*command: str, cwd: Path) -> None:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}:\n{ran.stdout}\n{ran.stderr}"


LANGUAGES = {
    language.name: language
    for language in (
        Language(name="python", build=_python),
        Language(name="typescript", needs=("make", "node", "npm"), build=_typescript),
        Language(name="go", needs=("go",), build=_go),
        Language(name="java", needs=("java", "mvn"), build=_java),
    )
}
"""Add a language here: docs/clients.md says what its driver has to do."""
