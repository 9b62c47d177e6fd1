"""Reads the arguments of one command; describes what is wrong with them in one line."""

import argparse
import sys
from typing import Any, NoReturn, TextIO

from acker_protocol.terminal import printable


class Parser(argparse.ArgumentParser):
    """Parses the arguments of ``acker COMMAND``; its help looks like that of the commands that use typer.

    argparse, since it is imported in a fifth of the time of click and acker-client gets no dependency by it.
    """

    def __init__(self, command: str, description: str | None, *, arguments: str = "") -> None:
        prog = f"acker {command}"
        super().__init__(
            prog=prog,
            usage=f"{prog} [OPTIONS] {arguments}".rstrip(),
            description=f"  {description}",
            formatter_class=_Help,
            add_help=False,
            allow_abbrev=False,
        )
        self.color = False  # Python 3.14 would colour the help, unlike typer
        self.options = self.add_argument_group("Options")
        self.options.add_argument("--help", action="help", help="Show this message and exit.")

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with 2."""
        sys.exit(usage_error(f"{message}; see {self.prog} --help"))


class _Help(argparse.RawDescriptionHelpFormatter):
    def add_usage(self, *args: Any, **options: Any) -> None:
        super().add_usage(*args, **options | {"prefix": "Usage: "})


def usage_error(message: str) -> int:
    """Print what is wrong with a command line; return the exit code for that."""
    print_line(f"acker: {message}", file=sys.stderr)
    return 2


def print_line(line: str, *, file: TextIO | None = None) -> None:
    """Print one line on stdout or another file, whatever is in it: parts of it may come from others."""
    print(printable(line), file=file)


def print_text(text: str, *, file: TextIO | None = None) -> None:
    """Print a text of ours as it is, with its line ends and codes of the terminal."""
    print(text, file=file)
