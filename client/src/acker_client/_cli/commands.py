"""The commands of this distribution.

``acker --help`` imports this module, so the module of a command is imported when the command runs.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

import acker_client
from acker_client._cli.nouns import Command, Noun
from acker_client._cli.parsing import Parser, print_line
from acker_client._core import hot_path
from acker_client._core.hot_path_form import form_of


def version(arguments: Sequence[str]) -> int:
    """Print the version, and whether the hot path is compiled."""
    Parser("version", version.__doc__).parse_args(arguments)
    print_line(acker_client.__version__)
    print_line(f"hot path: {form_of(hot_path)}")
    return 0


def _in(module: str, function: str, sentence: str) -> Callable[[Sequence[str]], int]:
    """Make a command of a function that takes the arguments and its description."""

    def command(arguments: Sequence[str]) -> int:
        code: int = getattr(import_module(f"acker_client._cli.{module}"), function)(arguments, description=sentence)
        return code

    command.__doc__ = sentence
    return command


RUN: dict[str, Command] = {
    "emit": _in("roots", "emit", "Emit a root with one edge, and print its header."),
    "run": _in("run", "main", "Run a command as a bolt: ack its tuple when it exits with 0, else fail it."),
    "anchor": _in("anchor", "main", "Anchor a child to the run that this process belongs to, and print its header."),
    "ack": _in("roots", "ack", "Ack the edges of a header, and print headers of new children."),
    "join": _in(
        "roots",
        "join",
        "Wait until a root is done; exit 0 if it was acked, 10 failed, 11 timed out, 12 still open, 13 unknown.",
    ),
}
LOOK: dict[str, Command] = {
    "doctor": _in("doctor.command", "main", "Say what is wrong; exit 0 if nothing is, 10 on a warning, 11 on trouble."),
    "status": _in("overview", "status", "Show the store, load, keys and processes of an acker."),
    "top": _in("overview", "top", "Show what ends in all topologies a second, again and again."),
    "history": _in("overview", "history", "Show what happened in a topology."),
    "failures": _in("lists", "failures", "List the roots that failed or timed out."),
    "completions": _in("mailboxes", "completions", "Show the unread completions of a spout task, and release none."),
    "audit": _in("overview", "audit", "List what was forced or discarded, by which key."),
    "health": _in("health", "main", "Ask an acker whether it is ready; exit 0 if it is, 1 if not."),
    "roundtrip": _in("roundtrip", "main", "Send a message through the acker, and say how long it took."),
}
TOPOLOGY: dict[str, Command] = {
    "create": _in("topologies", "create", "Create a topology, or change the one of this name."),
    "show": _in("topologies", "show", "Show the settings and counts of a topology."),
    "set": _in("topologies", "change", "Change settings of a topology that exists."),
    "delete": _in("topologies", "delete", "Delete a topology."),
    "list": _in("topologies", "list_all", "List the topologies."),
}
ROOT: dict[str, Command] = {
    "find": _in("find", "main", "Say where the message or root of an id is."),
    "show": _in("one_root", "show", "Show a root."),
    "list": _in("lists", "roots", "List pending roots."),
    "tree": _in("one_root", "tree", "Show the tuples of a traced root, and which of them are open."),
    "fail": _in("one_root", "fail", "Fail pending roots as operator."),
}
SPOUT: dict[str, Command] = {
    "list": _in("spouts", "list_all", "List the spout tasks of a topology."),
    "show": _in("spouts", "show", "Show a spout task."),
    "set": _in("spouts", "change", "Create a spout task, or change the one of this name."),
    "delete": _in("spouts", "delete", "Delete a spout task."),
}
WEBHOOK: dict[str, Command] = {
    "set": _in("webhooks", "change", "Post the completions of a spout task to an address."),
    "show": _in("webhooks", "show", "Show where the completions of a spout task go, and how that works."),
    "pause": _in("webhooks", "pause", "Deliver nothing until a resume."),
    "resume": _in("webhooks", "resume", "Deliver again, at once, whatever waits."),
    "test": _in("webhooks", "test", "Post a test message; exit 1 if the webhook does not take it."),
    "rotate": _in("webhooks", "rotate", "Make a new secret; for a day the one before it signs, too."),
}
DEAD_LETTERS: dict[str, Command] = {
    "list": _in("mailboxes", "list_dead_letters", "List the completions that could not be delivered."),
    "replay": _in("mailboxes", "replay_dead_letters", "Deliver dead letters again."),
    "discard": _in("mailboxes", "discard_dead_letters", "Delete dead letters."),
}
NOUNS = {
    "topology": Noun("topology", "Create, show, set, delete and list topologies.", usual="show", verbs=TOPOLOGY),
    "root": Noun("root", "Find, show, list and fail roots, and show their trees.", usual="show", verbs=ROOT),
    "spout": Noun("spout", "List, show, set and delete spout tasks.", usual="show", verbs=SPOUT),
    "webhook": Noun(
        "webhook", "Set, show, pause, resume, test and rotate the webhook of a spout task.", usual="show", verbs=WEBHOOK
    ),
    "dead-letters": Noun(
        "dead-letters", "List, replay or discard what could not be delivered.", usual="list", verbs=DEAD_LETTERS
    ),
}
"""The commands with verbs."""

MORE: dict[str, Command] = {
    "shell-completion": _in("shell_completion", "main", "Print a script that completes this command in a shell."),
    "version": version,
}

OWN: dict[str, Command] = RUN | LOOK | NOUNS | MORE
"""These commands by name."""
