"""The commands of this distribution.

``acker --help`` imports this module, so the module of a command is imported when the command runs.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

import acker_client
from acker_client._cli.parsing import Parser, print_line

Command = Callable[[Sequence[str]], int]


def version(arguments: Sequence[str]) -> int:
    """Print the version."""
    Parser("version", version.__doc__).parse_args(arguments)
    print_line(acker_client.__version__)
    return 0


def _in(module: str, function: str, sentence: str) -> Command:
    """Make a command of a function that takes the arguments and its description."""

    def command(arguments: Sequence[str]) -> int:
        code: int = getattr(import_module(f"acker_client._cli.{module}"), function)(arguments, description=sentence)
        return code

    command.__doc__ = sentence
    return command


OWN: dict[str, Command] = {
    "ack": _in("roots", "ack", "Ack the edges of a header, and print headers of new children."),
    "anchor": _in("anchor", "main", "Anchor a child to the run that this process belongs to, and print its header."),
    "audit": _in("overview", "audit", "List what was forced or discarded, by which key."),
    "callback": _in("callback", "main", "Show, set, pause, resume, test or rotate the callback of a spout task."),
    "completion": _in("completion", "main", "Print a script that completes this command in a shell."),
    "completions": _in("mailboxes", "completions", "Show the unread completions of a spout task, and release none."),
    "dead-letters": _in("mailboxes", "dead_letters", "Show, replay or discard what could not be delivered."),
    "doctor": _in("doctor.command", "main", "Say what is wrong; exit 0 if nothing is, 10 on a warning, 11 on trouble."),
    "emit": _in("roots", "emit", "Emit a root with one edge, and print its header."),
    "fail": _in("one_root", "fail", "Fail pending roots as operator."),
    "failures": _in("lists", "failures", "List the roots that failed or timed out."),
    "find": _in("find", "main", "Say where the message or root of an id is."),
    "health": _in("health", "main", "Ask an acker whether it is ready; exit 0 if it is, 1 if not."),
    "history": _in("overview", "history", "Show what happened in a topology."),
    "join": _in(
        "roots",
        "join",
        "Wait until a root is done; exit 0 if it was acked, 10 failed, 11 timed out, 12 still open, 13 unknown.",
    ),
    "root": _in("one_root", "root", "Show a root."),
    "roots": _in("lists", "roots", "List pending roots."),
    "roundtrip": _in("roundtrip", "main", "Send a message through the acker, and say how long it took."),
    "run": _in("run", "main", "Run a command as a bolt: ack its tuple when it exits with 0, else fail it."),
    "spouts": _in("lists", "spouts", "List the spout tasks of a topology."),
    "status": _in("overview", "status", "Show the store, load, keys and processes of an acker."),
    "top": _in("overview", "top", "Show what ends in all topologies a second, again and again."),
    "topologies": _in("overview", "topologies", "List the topologies."),
    "tree": _in("one_root", "tree", "Show the tuples of a traced root, and which of them are open."),
    "version": version,
}
"""These commands by name."""
