"""Pages that are made of the programs themselves: the help of the command, and the Python API from its docstrings."""

import contextlib
import io
import os
import re
from collections.abc import Iterator

import griffe
from acker_client._cli.main import all_commands, run

from docs.site.pages import Page

PACKAGES = ("acker_client", "acker_spark")
"""The packages that programs import; the protocol and the service have no Python API of their own."""

WIDTH = 100
"""So many characters wide is the help of a command."""

_HELP = """\
# The command's help

What `acker COMMAND --help` prints, made from the commands of this version. [The command acker](command-line.md) shows
how they are used.

"""
_API = """\
# Python API

Every public name of the client and of the connector for Spark, from their docstrings. [The Python client](../python.md)
and [Spark](../spark.md) show how they are used. Times are in seconds.
"""


def command_help() -> Page:
    """Return the page of what every command prints with ``--help``."""
    sections = [f"## `{command}`\n\n```text\n{text}\n```\n" for command, text in _helps()]
    return Page(path="docs/reference/command-help.md", text=_HELP + "\n".join(sections))


def python_api() -> Page:
    """Return the page from which mkdocstrings makes that of the Python API."""
    sections = [
        f"\n## `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false\n" for module in modules()
    ]
    return Page(path="docs/reference/python-api.md", text=_API + "".join(sections))


def modules() -> Iterator[str]:
    """Yield the modules that programs import from: those with public names that their package does not have."""
    for package in PACKAGES:
        loaded = griffe.load(package)
        assert isinstance(loaded, griffe.Module)
        yield from _declaring(loaded, frozenset())


def verbs(text: str) -> list[str]:
    """Return the commands that the help of a command lists."""
    _, _, listed = text.partition("\nCommands:\n")
    return re.findall(r"^  (\S+)  ", listed, re.MULTILINE)


def _helps() -> Iterator[tuple[str, str]]:
    """Yield each command with its help: `acker`, every command, and every verb."""
    yield "acker", _help()
    for name in all_commands():
        text = _help(name)
        yield f"acker {name}", text
        for verb in verbs(text):
            yield f"acker {name} {verb}", _help(name, verb)


def _help(*words: str) -> str:
    """Return what a command prints with ``--help``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _environment(), contextlib.suppress(SystemExit):
        run([*words, "--help"])
    text = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")
    if not text:
        raise RuntimeError(f"acker {' '.join(words)} --help printed nothing")
    return text


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Let a help be as wide on every terminal, and name no default that comes from a variable of this machine."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("ACKER_")]:
        del os.environ[name]
    os.environ |= {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def _declaring(module: griffe.Module, before: frozenset[str]) -> Iterator[str]:
    own = frozenset(map(str, module.exports or ()))
    if own - before:
        yield module.path
    for name, child in sorted(module.modules.items()):
        if not (name.startswith("_") or child.is_alias):
            yield from _declaring(child, before | own)
