"""Reads the arguments of one command; describes what is wrong with them in one line."""

import argparse
import sys
from typing import NoReturn, TextIO


class Parser(argparse.ArgumentParser):
    """Parses the arguments of ``acker COMMAND``.

    argparse rather than click or typer: it is imported in a tenth of their time, and acker-client gets no dependency.
    """

    def __init__(self, command: str, description: str | None) -> None:
        super().__init__(prog=f"acker {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with 2."""
        sys.exit(usage_error(f"{message}; see {self.prog} --help"))


def usage_error(message: str) -> int:
    """Print what is wrong with a command line; return the exit code for that."""
    print_line(f"acker: {message}", file=sys.stderr)
    return 2


def print_line(line: str, *, file: TextIO | None = None) -> None:
    """Print a line on stdout or another file."""
    print(line, file=file)
