"""Dispatches ``acker COMMAND …`` to the commands of this distribution and to those that others add.

A command is a function: it takes the arguments behind its name and returns an exit code, or None for 0. The first
sentence of its docstring describes it in ``acker --help``. Another distribution adds a command by an entry point of the
group ``acker.commands``. The help imports the modules of all commands; a command therefore imports what is slow to
import when it is called.

A command line that cannot be read ends with exit code 2 and one line on stderr.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from acker_client._cli.commands import OWN, version
from acker_client._cli.parsing import print_text, usage_error

Command = Callable[[Sequence[str]], int | None]

GROUP = "acker.commands"
BROUGHT_BY = dict.fromkeys(("bench", "config", "key", "serve"), "acker-service")
"""Commands of other distributions by name, each with the distribution that brings it."""

HELP = """\
Usage: acker [OPTIONS] COMMAND [ARGS]...

  Tell the sender of a message when everything that grew out of it is done.

Options:
  --version  Print the version.
  --help     Show this message and exit.

Commands:
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
            return version([])
        case [name, *rest] if command := _find(name):
            return command(rest) or 0
    return usage_error(_not_found(arguments[0]))


def all_commands() -> list[str]:
    """Return the names of all commands that are installed."""
    return sorted({*OWN, *_entry_points()})


def _find(name: str) -> Command | None:
    if own := OWN.get(name):
        return own
    added = _entry_points().get(name)
    return None if added is None else added.load()


def _entry_points() -> dict[str, Any]:
    """Find the commands that other distributions add."""
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {added.name: added for added in entry_points(group=GROUP)}


def _help() -> str:
    """Describe the command line: its options, and each command in the first sentence of its docstring."""
    commands = {name: added.load() for name, added in _entry_points().items()} | OWN
    width = max(map(len, commands)) + 2
    lines = (f"  {name:{width}}{_summary(commands[name])}" for name in sorted(commands))
    return HELP + "\n".join(lines)


def _summary(command: Command) -> str:
    first, _, _ = (command.__doc__ or "").strip().partition("\n")
    return first.partition(". ")[0].rstrip(".") + "."


def _not_found(name: str) -> str:
    """Describe why no command has this name: it is an option, another distribution brings it, or it is misspelt."""
    if name.startswith("-"):
        return f"no such option: {name}; see acker --help"
    if distribution := BROUGHT_BY.get(name):
        return (
            f"the command {name!r} is not installed: {distribution} brings it; install {distribution} into the "
            "environment of acker-client"
        )
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, OWN | BROUGHT_BY | _entry_points(), n=1)
    suggestion = f", did you mean {near[0]!r}?" if near else ";"
    return f"no such command {name!r}{suggestion} see acker --help"
