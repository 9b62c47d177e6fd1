"""The programs that tests need and Python's packages do not bring: where one is missing its tests are left out."""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, the Debian package that holds it, what is left out without it, and the tests that need it."""

    name: str
    package: str
    left_out: str
    tests: tuple[str, ...]

    @property
    def advice(self) -> str:
        """Describe what is missing, what that costs and how to get it."""
        return f"{self.left_out}: {self.name} is not installed (on Debian: apt-get install {self.package})"


PROGRAMS = (
    Program(
        name="curl",
        package="curl",
        left_out="the shell blocks of the pages",
        tests=("tests/docs/test_pasting.py", "tests/test_readme.py", "tests/runbook"),
    ),
    Program(
        name="zsh",
        package="zsh",
        left_out="the shell blocks of the pages in zsh",
        tests=("tests/docs/test_pasting.py", "tests/test_readme.py"),
    ),
    Program(
        name="node",
        package="nodejs",
        left_out="the JavaScript of the pages and of /ui/",
        tests=("tests/docs", "tests/integration/monitoring/test_page_doctor.py"),
    ),
    Program(
        name="npm",
        package="npm",
        left_out="the client for TypeScript",
        tests=("tests/clients", "tests/conformance/test_scenarios.py"),
    ),
    Program(
        name="mvn",
        package="maven",
        left_out="the client for Java, the programs for the JVM, and the brokers that Maven fetches",
        tests=(
            *("tests/clients", "tests/conformance/test_scenarios.py"),
            *("tests/pipelines", "tests/kafka", "tests/sqs", "tests/spark/kafka"),
        ),
    ),
    Program(
        name="java",
        package="openjdk-17-jre-headless",
        left_out="all that runs on Spark",
        tests=("tests/spark", "tests/pipelines", "tests/kafka", "tests/sqs"),
    ),
    Program(
        name="rabbitmq-server",
        package="rabbitmq-server",
        left_out="all that runs on RabbitMQ",
        tests=("tests/pipelines", "tests/queues", "tests/integrations"),
    ),
    Program(
        name="redis-check-rdb",
        package="redis-tools",
        left_out="the tests on Redis 7.0 (redis-tools of Debian 12 holds the server)",
        tests=("tests/faults", "tests/queues"),
    ),
    Program(
        name="mmdebstrap",
        package="mmdebstrap",
        left_out="the tests on Redis 8.0 and of the image",
        tests=("tests/faults", "tests/image"),
    ),
    Program(name="chromium", package="chromium", left_out="the page in a browser", tests=("tests/browser",)),
)


def needed(name: str) -> str:
    """Return the path of a program. Where it is missing the test is skipped, but where CI is set it fails.

    `.ci/run` installs what is missing before it tests.
    """
    if found := shutil.which(name):
        return found
    known = {program.name: program.advice for program in PROGRAMS}
    missing = known.get(name, f"{name} is not installed")
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def left_out(chosen: Iterable[Path], ignored: Sequence[Path] = ()) -> list[str]:
    """Return which of the chosen tests will be left out on this machine, a line for each program that is missing."""
    folders = list(chosen)
    return [
        program.advice
        for program in PROGRAMS
        if not shutil.which(program.name)
        and any(
            any(_within(ROOT / tests, folder) or _within(folder, ROOT / tests) for folder in folders)
            and not any(_within(ROOT / tests, folder) for folder in ignored)
            for tests in program.tests
        )
    ]


def _within(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder)
