"""Knows how a whole run of tests meets one broken rule: `pytest -p tests.support.mutant --mutant FILE …`."""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from acker_service.store import library

HOUSE = Path(__file__).parents[2]
LUA = "service/src/acker_service/store/lua/"
STORE = "service/src/acker_service/store/"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A rule, the file it stands in, how it reads there and how it is broken, and the tests that must fail then."""

    rule: str
    path: str
    old: str
    new: str
    tests: Sequence[str]

    def source(self) -> str:
        """The file, unbroken."""
        return (HOUSE / self.path).read_text(encoding="utf-8")

    def broken(self) -> str:
        """The file with its one place broken."""
        text = self.source()
        assert text.count(self.old) == 1, f"stands {text.count(self.old)} times in {self.path}: {self.old}"
        return text.replace(self.old, self.new)

    def library(self) -> str:
        """The library, with this rule broken if it stands there."""
        return library.source().replace(self.source(), self.broken())


def run_tests(tests: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout=60", "-p", "no:cacheprovider", *options, *tests]
    return subprocess.run(command, check=False, cwd=HOUSE, capture_output=True, text=True, timeout=300)


def run_against(mutant: Mutant, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a mutant's tests against it."""
    written = folder / "mutant.json"
    written.write_text(json.dumps(asdict(mutant)), encoding="utf-8")
    return run_tests(mutant.tests, "-p", "tests.support.mutant", "--mutant", str(written))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file that `run_against` wrote."""
    parser.addoption("--mutant", type=Path, help="the rule that this run meets broken")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Break the rule before anything imports what stands on it."""
    mutant = Mutant(**json.loads(early_config.known_args_namespace.mutant.read_text(encoding="utf-8")))
    if mutant.path.endswith(".lua"):
        text = mutant.library()
        library.source = lambda: text
    else:
        _, _, inside = mutant.path.partition("/src/")
        module = importlib.import_module(inside.removesuffix(".py").replace("/", "."))
        exec(compile(mutant.broken(), mutant.path, "exec"), module.__dict__)
