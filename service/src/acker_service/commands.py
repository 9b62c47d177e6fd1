"""The commands that this distribution adds to ``acker``, as entry points of the group ``acker.commands``.

``acker --help`` imports this module, so it imports the commands themselves when one of them runs.
"""

from collections.abc import Sequence


def serve(arguments: Sequence[str]) -> None:
    """Serve the acker."""
    _run("serve", arguments)


def bench(arguments: Sequence[str]) -> None:
    """Measure a Redis, and say what load it carries."""
    _run("bench", arguments)


def config(arguments: Sequence[str]) -> None:
    """Judge the settings of serve without starting it; exit 2 if they cannot be used."""
    _run("config", arguments)


def key(arguments: Sequence[str]) -> None:
    """Make keys."""
    _run("key", arguments)


def _run(command: str, arguments: Sequence[str]) -> None:
    from acker_service.__main__ import cli  # noqa: PLC0415 - takes half a second

    cli([command, *arguments], prog_name="acker")
