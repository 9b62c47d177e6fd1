"""`acker` runs the commands of acker-client and those that other distributions add, and is light."""

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version

import pytest
from acker_client._cli import main
from acker_client._cli.commands import NOUNS, OWN
from acker_client._cli.main import BROUGHT_BY, GROUP, run
from acker_client._core import hot_path

HEAVY = {"asyncio", "click", "fastapi", "httpx", "numpy", "pydantic", "redis", "typer", "uvicorn"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """acker-client is installed without other distributions."""
    monkeypatch.setattr(main, "_entry_points", dict)


def test_the_help_describes_each_command_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    options, *groups = capsys.readouterr().out.split("\n\n")[2:]
    assert options.startswith("Options:\n")
    titles = [group.partition(":\n")[0] for group in groups]
    assert titles == ["Run work as trees", "Look at an acker", "Act on what it has", "Serve", "More"]
    described = dict(re.findall(r"^  ([\w-]+) +(\S.*\.)$", "\n".join(groups), re.MULTILINE))
    assert described.keys() == {*OWN, *BROUGHT_BY}
    assert described["health"] == "Ask an acker whether it is ready; exit 0 if it is, 1 if not."


@pytest.mark.usefixtures("alone")
def test_the_health_of_an_acker_is_asked_with_the_client_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert run(["health", "--acker", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("acker: no acker answers at http://127.0.0.1:1: ")


def test_without_a_command_it_ends_with_2_and_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    without, _ = capsys.readouterr().err, run(["--help"])
    assert without == capsys.readouterr().out


def test_the_version_is_an_option_and_a_command_that_says_which_form_of_the_hot_path_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"{version('acker-client')}\n"
    assert run(["version"]) == 0
    form = "interpreted" if hot_path.__file__.endswith(".py") else "compiled"
    assert capsys.readouterr().out == f"{version('acker-client')}\nhot path: {form}\n"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--port", "1"], "acker-service brings it"),
        (["srve"], "did you mean 'serve'? see acker --help"),
        (["nothing"], "no such command 'nothing'; see acker --help"),
        (["topolgy"], "did you mean 'topology'? see acker --help"),
        (["pause"], "did you mean 'acker webhook pause'? see acker --help"),
        (["tres"], "did you mean 'acker root tree'? see acker --help"),
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


FORMER = {
    ("callback", "set", "orders", "shop", "--none"): "'acker webhook' (and 'acker spout set' for what",
    ("completion", "bash"): "'acker shell-completion'",
    ("fail", "orders", "00c1000000000001", "--yes"): "'acker root fail'",
    ("find", "42"): "'acker root find'",
    ("roots", "orders"): "'acker root list'",
    ("spouts", "orders"): "'acker spout list'",
    ("topologies",): "'acker topology list'",
    ("tree", "orders", "00c1000000000001"): "'acker root tree'",
    ("root", "orders", "00c1000000000001"): "'acker root show'",
    ("root", "--watch"): "'acker root show'",
    ("dead-letters", "orders", "shop"): "'acker dead-letters list'",
    ("dead-letters", "orders", "shop", "replay"): "'acker dead-letters replay'",
    ("dead-letters", "orders", "shop", "discard", "--yes"): "'acker dead-letters discard'",
    ("webhook", "rotat", "orders", "shop"): "'acker webhook rotate'",
    ("topology", "orders"): "'acker topology show'",
    ("status", "--url", "http://127.0.0.1:1"): "the option --url is now --acker",
    ("emit", "--message-id", "1", "--url", "http://127.0.0.1:1"): "the option --url is now --acker",
    ("health", "--url", ""): "the option --url is now --acker",
}
"""What says which command or option is meant, by a command line that is former or misspelt."""


@pytest.mark.parametrize(("arguments", "says"), FORMER.items(), ids=map(" ".join, FORMER))
def test_a_former_or_misspelt_name_is_an_error_that_says_the_right_one(
    arguments: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = run(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert re.fullmatch(r"acker: .*\n", printed.err)
    assert says in printed.err


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_describes_its_verbs_in_a_sentence_each(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: acker {noun} [OPTIONS] COMMAND [ARGS]...\n\n  {NOUNS[noun].__doc__}\n")
    described = dict(re.findall(r"^  ([a-z]+) +(\S.*\.)$", shown.partition("Commands:\n")[2], re.MULTILINE))
    assert described.keys() == NOUNS[noun].verbs.keys()
    assert run([noun]) == 2
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize(("noun", "verb"), [(noun, verb) for noun in NOUNS for verb in NOUNS[noun].verbs])
def test_the_help_of_a_verb_says_how_it_is_called(noun: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run([noun, verb, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: acker {noun} {verb} [OPTIONS]")
    assert "--acker" in shown
    assert "--url" not in shown


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


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["nothing"], ["root", "--help"], ["root", "shw"]])
def test_it_imports_nothing_that_is_slow(arguments: list[str]) -> None:
    program = f"import sys; from acker_client._cli.main import run; run({arguments}); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert HEAVY.isdisjoint(printed.splitlines()[-1].split())


def test_the_help_of_a_command_looks_like_that_of_the_service_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["version", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        "Usage: acker version [OPTIONS]\n\n  Print the version, and whether the hot path is compiled.\n\n"
        "Options:\n  --help  Show this message and exit.\n"
    )
