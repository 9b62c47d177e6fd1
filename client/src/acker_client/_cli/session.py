"""Runs the commands of operators: their common options, errors, and repetition by ``--watch``."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

from acker_protocol import routes
from acker_protocol.terminal import printable
from acker_protocol.wire import fields

from acker_client._cli.former_names import add_former_option
from acker_client._cli.output import Form, Result
from acker_client._cli.parsing import Parser, print_line, print_text, usage_error
from acker_client._cli.service import Service
from acker_client.config import Address, address_from
from acker_client.errors import AckerError, UnknownTopology, UsageError

INTERRUPTED = 130
WATCH_S = 2.0
MAX_WATCH_S = 86_400
CLEAR = "\x1b[H\x1b[2J"
"""Moves a terminal's cursor to the beginning, and clears what is there."""

Action = Callable[[Service, argparse.Namespace], Result]


class ServiceParser(Parser):
    """Parses the arguments of a command that asks an acker, and runs it."""

    def __init__(self, command: str, description: str | None, *, arguments: str = "") -> None:
        super().__init__(command, description, arguments=arguments)
        add_address(self)
        forms = [form.value for form in Form]
        self.options.add_argument(
            "-o", "--output", choices=forms, default="table", help="For people, or for programs [table]."
        )

    def watchable(self, *, interval: float | None = None) -> None:
        """Add the option that repeats the command."""
        add = self.options.add_argument
        says = "Repeat it until Ctrl-C [every 2 s]."
        add("--watch", nargs="?", const=WATCH_S, default=interval, type=_seconds, metavar="SECONDS", help=says)
        add("--count", type=count, metavar="N", help="Repeat it so often.")

    def run(self, arguments: Sequence[str], action: Action) -> int:
        """Ask an acker and print the answer; give the exit code."""
        found = self.parse_args(arguments)
        try:
            with closing(Service(address_of(found))) as service:
                if getattr(found, "watch", None) is None:
                    return _once(service, found, action)
                return _repeat(service, found, action)
        except UsageError as error:
            return usage_error(f"{error}; see {self.prog} --help")
        except AckerError as error:
            print_line(f"acker: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:  # as by `| head`
            sys.stderr.close()
            return 1
        except KeyboardInterrupt:
            return INTERRUPTED


def add_address(parser: Parser) -> None:
    """Add the options that say which acker is asked, with which key."""
    add = parser.options.add_argument
    add("--acker", metavar="URL", help="The address of the acker [ACKER_URL, or http://127.0.0.1:8700].")
    add_former_option(parser, "--url", now="--acker")
    add("--api-key", metavar="KEY", help="A key of the acker [ACKER_API_KEY].")


def address_of(found: argparse.Namespace) -> Address:
    """Return the address that the options name, else that of the environment."""
    own = address_from()
    topology = getattr(found, "topology", None) or own.topology
    return Address(url=found.acker or own.url, topology=topology, api_key=found.api_key or own.api_key)


def name(text: str) -> str:
    """Check a name of the contract; an argparse type."""
    try:
        return fields.name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def add_topology(parser: Parser) -> None:
    """Add the argument TOPOLOGY."""
    parser.add_argument("topology", metavar="TOPOLOGY", type=name, help="The topology.")


def add_spout_task(parser: Parser) -> None:
    """Add the arguments TOPOLOGY and SPOUT_TASK."""
    add_topology(parser)
    parser.add_argument("spout_task", metavar="SPOUT_TASK", type=name, help="The spout task.")


def add_limit(parser: Parser, *, default: int = 100) -> None:
    """Add the option that bounds a list."""
    parser.options.add_argument(
        "--limit", type=count, default=default, metavar="N", help=f"The most items [{default}]."
    )


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone. Raises `UsageError` for any answer but yes, and without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on: confirm with --yes")
    print(f"{printable(question)} Type yes: ", end="", file=sys.stderr, flush=True)  # noqa: T201 - a question has no line end
    if sys.stdin.readline().strip() != "yes":
        raise UsageError("nothing was done: it was not confirmed")


def _once(service: Service, found: argparse.Namespace, action: Action) -> int:
    try:
        result = action(service, found)
    except UnknownTopology as error:
        names = (one["topology"] for one in service.get(routes.topologies())["topologies"])
        meant = fields.nearest(found.topology, names)
        raise AckerError(f"{error}; did you mean {meant}?" if meant else str(error)) from None
    result.print(Form(found.output))
    return result.exit_code


def _repeat(service: Service, found: argparse.Namespace, action: Action) -> int:
    """Repeat it; an error is shown, and the next time may succeed."""
    left = found.count or 0
    clear = found.output == Form.TABLE.value and sys.stdout.isatty()
    code = 0
    while True:
        try:
            result: Any = action(service, found)
            if clear:
                print_text(CLEAR, file=sys.stdout)
            result.print(Form(found.output))
            code = result.exit_code
        except UsageError:
            raise
        except AckerError as error:
            print_line(f"acker: {error}", file=sys.stderr)
            code = 1
        left -= 1
        if left == 0:
            return code
        time.sleep(found.watch)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) <= MAX_WATCH_S:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and at most {MAX_WATCH_S}")


def count(text: str) -> int:
    """Read a number of things; an argparse type."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)
