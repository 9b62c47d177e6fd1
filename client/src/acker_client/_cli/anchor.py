"""``acker anchor``: anchors a child to the run around a process, without a request."""

import os
import sys
from collections.abc import Sequence

from acker_protocol.routes import ANCHORS

from acker_client._cli.parsing import Parser, print_line
from acker_client.errors import AckerError, UsageError
from acker_client.integrations.process import ANCHORS_VARIABLE, CHILDREN_VARIABLE, children_of


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Print the header of a new child; an empty line where the process is not tracked."""
    parser = Parser("anchor", description)
    parser.options.add_argument("--key", help="A re-run with this key gets the same edge; without one it is random.")
    key = parser.parse_args(arguments).key
    try:
        print_line(_anchor(key))
    except (AckerError, OSError) as error:
        print_line(f"acker: {error}", file=sys.stderr)
        return 1
    return 0


def _anchor(key: str | None) -> str:
    anchors = os.environ.get(ANCHORS_VARIABLE)
    if not anchors:
        return ""
    children = children_of(anchors, os.environ)
    if children is None:
        raise UsageError(
            f"no run acks the children of this process ({CHILDREN_VARIABLE} is not that of its anchors): "
            "start it by acker run"
        )
    return children.add(key).headers()[ANCHORS]
