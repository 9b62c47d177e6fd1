"""``acker completion``: scripts that complete the command in shells, and the words that they offer."""

import contextlib
import io
import re
from collections.abc import Sequence

from acker_protocol import routes

from acker_client._cli.main import all_commands, run
from acker_client._cli.parsing import Parser, print_line, print_text
from acker_client._cli.service import Service
from acker_client.config import address_from
from acker_client.errors import AckerError

WORDS = "words"
"""What the scripts call: ``acker completion words``, then the words typed, the last of them not to its end."""

BASH = """\
_acker() { local IFS=$'\\n'; COMPREPLY=($(acker completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)); }
complete -F _acker acker"""

SCRIPTS = {
    "bash": BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}",
    "fish": "complete -c acker -f -a '(acker completion words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'",
}
"""A script by shell, to be sourced."""

ANSWER_S = 2.0
"""How long the acker may take to name topologies."""

TOPOLOGY_AT = dict.fromkeys(
    ("completions", "dead-letters", "fail", "failures", "history", "root", "roots", "roundtrip", "spouts", "tree"), 1
) | {"callback": 2}
"""Where a command has its topology; the acts of `callback` stand before it."""

WITH_SPOUT_TASK = frozenset({"callback", "completions", "dead-letters"})


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Print the script of a shell, or the words that may come next."""
    if arguments[:1] == [WORDS]:
        for word in words(arguments[1:]):
            print_line(word)
        return 0
    parser = Parser("completion", description, arguments="SHELL")
    parser.add_argument("shell", metavar="SHELL", choices=SCRIPTS, help="bash, zsh or fish.")
    print_text(SCRIPTS[parser.parse_args(arguments).shell])
    return 0


def words(typed: Sequence[str]) -> list[str]:
    """Return the words that may stand in place of the last one typed."""
    *before, last = typed or [""]
    offered: list[str] = []
    if not before:
        offered = [*all_commands(), "--help", "--version"]
    elif last.startswith("-"):
        offered = _options(before[0])
    else:
        with contextlib.suppress(AckerError):
            offered = _names(before)
    return [word for word in offered if word.startswith(last)]


def _options(command: str) -> list[str]:
    """Read the options of a command from its help."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        run([command, "--help"])
    return sorted(set(re.findall(r"--[a-z][a-z-]+", printed.getvalue())))


def _names(before: Sequence[str]) -> list[str]:
    """Ask the acker for its topologies, or for the spout tasks of the one that was typed. Raises `AckerError`."""
    command, *positional = (word for word in before if not word.startswith("-"))
    at = TOPOLOGY_AT.get(command)
    service = Service(address_from(), timeout_s=ANSWER_S)
    if at == len(positional) + 1:
        return [one["topology"] for one in service.get(routes.topologies())["topologies"]]
    if at == len(positional) and command in WITH_SPOUT_TASK:
        return [one["spout_task"] for one in service.get(routes.spouts(positional[-1]))["spouts"]]
    return []
