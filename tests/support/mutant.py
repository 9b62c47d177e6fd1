"""Runs tests against one broken rule."""

import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from acker_service.redis import library

from tests.support.rules import ROOT, rules_of_the_source


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A rule that is broken on purpose, and the tests that must fail then.

    The rule stands as a comment in the source. ``old`` is the fragment of the statement below it that ``new`` replaces,
    or None for all of the statement.
    """

    rule: str
    old: str | None
    new: str
    tests: Sequence[str] = ()

    @property
    def path(self) -> str:
        """The file in which the rule stands."""
        return rules_of_the_source().statement(self.rule).path

    @property
    def module(self) -> str:
        """The module in which a rule of Python stands."""
        _, _, inside = self.path.partition("/src/")
        return inside.removesuffix(".py").replace("/", ".")

    def source(self) -> str:
        """The file, unbroken."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    def broken(self) -> str:
        """The file with its rule broken."""
        return rules_of_the_source().broken(self.rule, self.old, self.new)

    def library(self) -> str:
        """The library, with this rule broken if it stands there."""
        return library.source().replace(self.source(), self.broken())


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a run of tests ended, and what it printed."""

    code: int | None
    printed: str


def run_tests(tests: Sequence[str], folder: Path, *options: str) -> Run:
    """Run tests in a process of their own: a fork of one that has imported what is slow to import."""
    own = multiprocessing.get_context("forkserver")
    own.set_forkserver_preload(["pytest", "hypothesis.stateful", "httpx", "acker_service.app"])
    quietly = ("-x", "-q", "--timeout=60", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    printed = folder / "printed"
    process = own.Process(target=_run, args=([*quietly, *options, *tests], printed))
    process.start()
    process.join(300)
    process.kill()
    process.join()
    return Run(code=process.exitcode, printed=printed.read_text(encoding="utf-8"))


def run_against(mutant: Mutant, folder: Path) -> Run:
    """Run a mutant's tests against it."""
    written = folder / "mutant.json"
    written.write_text(json.dumps(asdict(mutant)), encoding="utf-8")
    return run_tests(mutant.tests, folder, "--mutant", str(written))


def _run(arguments: list[str], printed: Path) -> None:
    os.chdir(ROOT)
    with printed.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.exit(int(pytest.main(arguments, plugins=[sys.modules[__name__]])))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file that `run_against` wrote."""
    parser.addoption("--mutant", type=Path, help="the rule that this run meets broken")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Break the rule before anything imports what stands on it."""
    written = early_config.known_args_namespace.mutant
    if written is None:
        return
    mutant = Mutant(**json.loads(written.read_text(encoding="utf-8")))
    if mutant.path.endswith(".lua"):
        text = mutant.library()
        library.source = lambda: text
    else:
        _break_module(mutant)


def _break_module(mutant: Mutant) -> None:
    """Import a module broken: all of the service anew, so that nothing holds on to what it was."""
    for name in [name for name in sys.modules if name.startswith("acker_service")]:
        del sys.modules[name]
    module = importlib.import_module(mutant.module)
    exec(compile(mutant.broken(), mutant.path, "exec"), module.__dict__)
