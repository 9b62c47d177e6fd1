"""``acker emit`` and ``acker join``: begins a root, and waits for its end."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

from acker_protocol.anchors import parse_anchors
from acker_protocol.ids import format_id
from acker_protocol.operations import Outcome
from acker_protocol.routes import ANCHORS

from acker_client._cli.parsing import Parser, print_line
from acker_client.config import address_from
from acker_client.errors import AckerError, NotFound, UsageError
from acker_client.sync.client import Acker

EXIT_CODES = {Outcome.ACKED: 0, Outcome.FAILED: 10, Outcome.TIMED_OUT: 11}
STILL_OPEN = 12
UNKNOWN = 13


def emit(arguments: Sequence[str], *, description: str | None) -> int:
    """Send an init with one edge, and print the header of that edge."""
    parser = Parser("emit", description)
    add = parser.options.add_argument
    add("--message-id", required=True, metavar="ID", help="Your own id of the message.")
    add("--spout", metavar="NAME", help="The spout task that reads the completion [none reads it].")
    add("--message-timeout", type=float, metavar="SECONDS", help="By default that of the topology.")
    found = parser.parse_args(arguments)
    return _report(partial(_emit, found.message_id, spout=found.spout, message_timeout=found.message_timeout))


def join(arguments: Sequence[str], *, description: str | None) -> int:
    """Print ``acked``, ``failed``, ``timed_out``, ``pending``, ``early`` or ``unknown``, and exit accordingly."""
    parser = Parser("join", description, arguments="ROOT")
    parser.add_argument("root", metavar="ROOT", help="A root id, or the header of one of its messages.")
    parser.options.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="How long to wait [0].")
    found = parser.parse_args(arguments)
    return _report(partial(_join, found.root, wait=found.wait))


def _report(command: Callable[[], int]) -> int:
    try:
        return command()
    except AckerError as error:
        print_line(f"acker: {error}", file=sys.stderr)
        return 1


def _emit(message_id: str, *, spout: str | None, message_timeout: float | None) -> int:
    address = address_from()
    with Acker(address.url, address.topology, address.api_key) as acker:
        task = acker.spout("acker-emit") if spout is None else acker.shared_spout(spout)
        with task.emit(message_id=message_id, message_timeout=message_timeout) as root:
            header = root.headers()[ANCHORS]
    print_line(header)
    return 0


def _join(root: str, *, wait: float) -> int:
    address = address_from()
    topology, root_id = _named(root, topology=address.topology)
    with Acker(address.url, topology, address.api_key) as acker:
        try:
            found = acker.roots.get(root_id, wait=wait)
        except NotFound:
            print_line("unknown")
            return UNKNOWN
    print_line(found.outcome or found.state)
    return STILL_OPEN if found.outcome is None else EXIT_CODES[found.outcome]


def _named(root: str, *, topology: str) -> tuple[str, str]:
    """Give the topology and the root id that an argument names: a root id, or a header. Raises `UsageError`."""
    if " " not in root.strip():
        return topology, root.strip()
    anchors = parse_anchors(root)
    ids = {anchor.root_id for anchor in anchors.anchors}
    if len(ids) != 1:
        raise UsageError("the header names several roots; join them one by one")
    return anchors.topology, format_id(ids.pop())
