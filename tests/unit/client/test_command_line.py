"""`acker` runs the commands of acker-client and those that other distributions add, and is light."""

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version

import pytest
from acker_client._cli import main
from acker_client._cli.commands import OWN
from acker_client._cli.main import BROUGHT_BY, GROUP, run

HEAVY = {"asyncio", "click", "fastapi", "httpx", "numpy", "pydantic", "redis", "typer", "uvicorn"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """acker-client is installed without other distributions."""
    monkeypatch.setattr(main, "_entry_points", dict)


def test_the_help_describes_each_command_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    options, _, commands = capsys.readouterr().out.partition("\nCommands:\n")
    assert options.startswith("Usage: acker [OPTIONS] COMMAND [ARGS]...\n")
    described = dict(re.findall(r"^  ([\w-]+) +(\S.*\.)$", commands, re.MULTILINE))
    assert described.keys() == {*OWN, *BROUGHT_BY}
    assert described["health"] == "Ask an acker whether it is ready; exit 0 if it is, 1 if not."


@pytest.mark.usefixtures("alone")
def test_the_health_of_an_acker_is_asked_with_the_client_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert run(["health", "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("acker: no acker answers at http://127.0.0.1:1: ")


def test_without_a_command_it_ends_with_2_and_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    without, _ = capsys.readouterr().err, run(["--help"])
    assert without == capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version_is_an_option_and_a_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"{version('acker-client')}\n"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--port", "1"], "acker-service brings it"),
        (["srve"], "did you mean 'serve'? see acker --help"),
        (["nothing"], "no such command 'nothing'; see acker --help"),
        (["--port"], "no such option: --port; see acker --help"),
    ],
)
def test_a_command_that_is_not_there_ends_it_with_2_and_a_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"acker: .*\n", said)
    assert says in said


@pytest.mark.parametrize("wrong", ["now", "--json"])
def test_arguments_that_a_command_does_not_take_end_it_with_2_and_a_line(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["version", wrong])
    assert ended.value.code == 2
    assert re.fullmatch(rf"acker: .*{wrong}; see acker version --help\n", capsys.readouterr().err)


class Added:
    """An entry point whose command notes what it is called with."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.calls = list[Sequence[str]]()

    def load(self) -> "Added":
        return self

    def __call__(self, arguments: Sequence[str]) -> int | None:
        self.calls.append(arguments)
        return self.code


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (10, 10)])
def test_an_added_command_gets_what_stands_behind_its_name(
    returned: int | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = Added(returned)
    monkeypatch.setattr(main, "_entry_points", lambda: {"ledger": added})
    assert run(["ledger", "--all", "orders"]) == code
    assert added.calls == [["--all", "orders"]]


def test_the_commands_named_here_are_those_that_acker_service_adds() -> None:
    added = {each.name: each.dist.name for each in entry_points(group=GROUP) if each.dist}
    assert added == BROUGHT_BY


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["nothing"]])
def test_it_imports_nothing_that_is_slow(arguments: list[str]) -> None:
    program = f"import sys; from acker_client._cli.main import run; run({arguments}); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert HEAVY.isdisjoint(printed.splitlines()[-1].split())


def test_the_help_of_a_command_looks_like_that_of_the_service_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["version", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        "Usage: acker version [OPTIONS]\n\n  Print the version.\n\nOptions:\n  --help  Show this message and exit.\n"
    )
