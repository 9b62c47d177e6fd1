"""``acker shell-completion``: scripts that complete the command in shells, and the words that they offer."""

import contextlib
import io
import re
from collections.abc import Sequence

from acker_protocol import routes

from acker_client._cli.commands import NOUNS
from acker_client._cli.main import all_commands, run
from acker_client._cli.parsing import Parser, print_line, print_text
from acker_client._cli.service import Service
from acker_client.config import address_from
from acker_client.errors import AckerError

WORDS = "words"
"""What the scripts call: ``acker shell-completion words``, then the words typed, the last of them not to its end."""

BASH = """\
_acker() { local IFS=$'\\n'; COMPREPLY=($(acker shell-completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)); }
complete -F _acker acker"""

FISH = "(acker shell-completion words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)"

SCRIPTS = {
    "bash": BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}",
    "fish": f"complete -c acker -f -a '{FISH}'",
}
"""A script by shell, to be sourced."""

ANSWER_S = 2.0
"""How long the acker may take to name topologies."""

WITH_SPOUT_TASK = frozenset(
    {"completions", "spout show", "spout set", "spout delete"}
    | {f"{noun} {verb}" for noun in ("webhook", "dead-letters") for verb in NOUNS[noun].verbs}
)
"""The commands whose arguments begin with a topology and a spout task."""

WITH_TOPOLOGY = (
    WITH_SPOUT_TASK
    | {"emit", "failures", "history", "roundtrip", "spout list"}
    | {
        *(f"topology {verb}" for verb in ("show", "set", "delete")),
        *(f"root {verb}" for verb in ("show", "list", "tree", "fail")),
    }
)
"""The commands whose arguments begin with a topology."""


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Print the script of a shell, or the words that may come next."""
    if arguments[:1] == [WORDS]:
        for word in words(arguments[1:]):
            print_line(word)
        return 0
    parser = Parser("shell-completion", description, arguments="SHELL")
    parser.add_argument("shell", metavar="SHELL", choices=SCRIPTS, help="bash, zsh or fish.")
    print_text(SCRIPTS[parser.parse_args(arguments).shell])
    return 0


def words(typed: Sequence[str]) -> list[str]:
    """Return the words that may stand in place of the last one typed."""
    *before, last = typed or [""]
    command, arguments = _split(before)
    offered: list[str] = []
    if not before:
        offered = [*all_commands(), "--help", "--version"]
    elif last.startswith("-"):
        offered = _options(command)
    elif noun := NOUNS.get(" ".join(command)):
        offered = list(noun.verbs)
    else:
        with contextlib.suppress(AckerError):
            offered = _names(" ".join(command), arguments)
    return [word for word in offered if word.startswith(last)]


def _split(before: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    """Divide the words typed into a command, with its verb, and its arguments without options."""
    length = 2 if before and before[0] in NOUNS else 1
    return before[:length], [word for word in before[length:] if not word.startswith("-")]


def _options(command: Sequence[str]) -> list[str]:
    """Read the options of a command from its help."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        run([*command, "--help"])
    return sorted(set(re.findall(r"--[a-z][a-z-]+", printed.getvalue())))


def _names(command: str, arguments: Sequence[str]) -> list[str]:
    """Ask the acker for its topologies, or for the spout tasks of the one that was typed. Raises `AckerError`."""
    service = Service(address_from(), timeout_s=ANSWER_S)
    if not arguments and command in WITH_TOPOLOGY:
        return [one["topology"] for one in service.get(routes.topologies())["topologies"]]
    if len(arguments) == 1 and command in WITH_SPOUT_TASK:
        return [one["spout_task"] for one in service.get(routes.spouts(arguments[0]))["spouts"]]
    return []
