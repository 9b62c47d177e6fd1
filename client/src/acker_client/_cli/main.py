"""Dispatches ``acker COMMAND …`` to the commands of this distribution and to those that others add.

A command is a function: it takes the arguments behind its name and returns an exit code, or None for 0. The first
sentence of its docstring describes it in ``acker --help``. Another distribution adds a command by an entry point of the
group ``acker.commands``. The help imports the modules of all commands; a command therefore imports what is slow to
import when it is called.

A command line that cannot be read ends with exit code 2 and one line on stderr.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import acker_client
from acker_client._cli.commands import LOOK, MORE, NOUNS, OWN, RUN
from acker_client._cli.former_names import COMMANDS as FORMER
from acker_client._cli.nouns import Command, command_lines
from acker_client._cli.parsing import print_line, print_text, usage_error

GROUP = "acker.commands"
BROUGHT_BY = dict.fromkeys(("serve", "config", "key", "bench"), "acker-service")
"""Commands of other distributions by name, each with the distribution that brings it."""

HELP = """\
Usage: acker [OPTIONS] COMMAND [ARGS]...

  Tell the sender of a message when everything that grew out of it is done.

Options:
  --version  Print the version.
  --help     Show this message and exit.
"""


def main() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; return its exit code."""
    match arguments:
        case []:
            print_text(_help(), file=sys.stderr)
            return 2
        case ["--help", *_]:
            print_text(_help())
            return 0
        case ["--version", *_]:
            print_line(acker_client.__version__)
            return 0
        case [name, *rest] if command := _find(name):
            return command(rest) or 0
    return usage_error(_not_found(arguments[0]))


def all_commands() -> list[str]:
    """Return the names of all commands that are installed."""
    return sorted({*OWN, *_entry_points()})


def _find(name: str) -> Command | None:
    if own := OWN.get(name):
        return own
    added: Command | None = found.load() if (found := _entry_points().get(name)) else None
    return added


def _entry_points() -> dict[str, Any]:
    """Find the commands that other distributions add."""
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {added.name: added for added in entry_points(group=GROUP)}


def _help() -> str:
    """Describe the command line: its options, and by task each command in the first sentence of its docstring."""
    added = {name: found.load() for name, found in sorted(_entry_points().items())}
    serving = {name: added.pop(name) for name in BROUGHT_BY if name in added}
    groups: dict[str, Mapping[str, Command]] = {
        "Run work as trees": RUN,
        "Look at an acker": LOOK,
        "Act on what it has": NOUNS,
        "Serve": serving,
        "More": added | MORE,
    }
    width = max(len(name) for commands in groups.values() for name in commands)
    shown = (
        "\n".join([f"{title}:", *command_lines(commands, width=width)])
        for title, commands in groups.items()
        if commands
    )
    return "\n\n".join([HELP.rstrip("\n"), *shown])


def _not_found(name: str) -> str:
    """Describe why no command has this name: it is an option, an other one by now, not installed, or misspelt."""
    if name.startswith("-"):
        return f"no such option: {name}; see acker --help"
    if now := FORMER.get(name):
        return f"the command {name!r} is now {now}; see acker --help"
    if distribution := BROUGHT_BY.get(name):
        return (
            f"the command {name!r} is not installed: {distribution} brings it; install {distribution} into the "
            "environment of acker-client"
        )
    near = _near(name)
    suggestion = f", did you mean {near}?" if near else ";"
    return f"no such command {name!r}{suggestion} see acker --help"


def _near(name: str) -> str:
    """Name the commands that may be meant: those with this verb, else one that is spelt nearly so; empty for none."""
    if with_verb := [f"'acker {noun} {name}'" for noun, command in NOUNS.items() if name in command.verbs]:
        return " or ".join(with_verb)
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, OWN | BROUGHT_BY | FORMER | _entry_points(), n=1)
    return FORMER.get(near[0], repr(near[0])) if near else ""
