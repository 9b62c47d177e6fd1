"""The former names of commands and options; each is only an error that says the present one."""

import argparse
from collections.abc import Sequence
from typing import Any

from acker_client._cli.parsing import Parser

COMMANDS = {
    "callback": "'acker webhook' (and 'acker spout set' for what was --pubsub and --none)",
    "completion": "'acker shell-completion'",
    "fail": "'acker root fail'",
    "find": "'acker root find'",
    "roots": "'acker root list'",
    "spouts": "'acker spout list'",
    "topologies": "'acker topology list'",
    "tree": "'acker root tree'",
}
"""What commands are called now, by their former names."""


def add_former_option(parser: Parser, former: str, *, now: str) -> None:
    """Refuse a former option with its present name; no help shows it."""
    parser.options.add_argument(former, action=_Refuse, nargs="?", const=now, help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - the signature of argparse
        values: str | Sequence[Any] | None,  # noqa: ARG002
        option_string: str | None = None,
    ) -> None:
        parser.error(f"the option {option_string} is now {self.const}")
