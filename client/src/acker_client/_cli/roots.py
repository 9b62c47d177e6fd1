"""``acker emit``, ``acker ack`` and ``acker join``: begins a root, acks its edges, waits for its end."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from acker_protocol.anchors import parse_anchors
from acker_protocol.operations import EndOn, Outcome
from acker_protocol.routes import ANCHORS

from acker_client._cli.find import failure_of
from acker_client._cli.parsing import Parser, print_line, usage_error
from acker_client._cli.root_ids import root_of_header
from acker_client._cli.service import Service
from acker_client._cli.session import add_address, address_of, count, name
from acker_client.errors import AckerError, NotFound, UsageError
from acker_client.integrations.process import ANCHORS_VARIABLE
from acker_client.roots import RootInfo
from acker_client.sync.client import Acker

COMPONENT = "acker-ack"

EXIT_CODES = {Outcome.ACKED: 0, Outcome.FAILED: 10, Outcome.TIMED_OUT: 11}
STILL_OPEN = 12
UNKNOWN = 13


def emit(arguments: Sequence[str], *, description: str | None) -> int:
    """Send an init with one edge, and print the header of that edge."""
    parser = Parser("emit", description, arguments="[TOPOLOGY]")
    parser.add_argument("topology", metavar="TOPOLOGY", nargs="?", type=name, help="The topology [ACKER_TOPOLOGY].")
    add = parser.options.add_argument
    add("--message-id", required=True, metavar="ID", help="Your own id of the message.")
    add("--spout", metavar="NAME", help="The spout task that reads the completion [none reads it].")
    add("--message-timeout", type=float, metavar="SECONDS", help="By default that of the topology.")
    add("--trace", action="store_true", help="Keep the tree of the root; acker root tree shows it.")
    add(
        "--end-on",
        choices=[str(kind) for kind in EndOn],
        help="Whether it ends at its first fail, or when all have ended; by default as the topology says.",
    )
    add_address(parser)
    found = parser.parse_args(arguments)
    return _report(partial(_emit, found))


def ack(arguments: Sequence[str], *, description: str | None) -> int:
    """Ack the edges of a header, with children that are drawn here and whose headers are printed, a line each."""
    parser = Parser("ack", description, arguments="[HEADER]")
    parser.add_argument("header", metavar="HEADER", nargs="?", help="As acker emit printed it [ACKER_ANCHORS].")
    add = parser.options.add_argument
    add("--component", default=COMPONENT, type=name, metavar="NAME", help=f"The name of the bolt [{COMPONENT}].")
    add("--children", type=count, default=0, metavar="N", help="Anchor so many children [0].")
    add("--fail", action="store_true", help="Fail the roots instead.")
    add("--reason", metavar="TEXT", help="Why they fail.")
    add_address(parser)
    found = parser.parse_args(arguments)
    return _report(partial(_ack, found))


def join(arguments: Sequence[str], *, description: str | None) -> int:
    """Print ``acked``, ``failed``, ``timed_out``, ``pending``, ``early`` or ``unknown``, and exit accordingly."""
    parser = Parser("join", description, arguments="ROOT")
    parser.add_argument("root", metavar="ROOT", help="A root id, or the header of one of its messages.")
    parser.options.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="How long to wait [0].")
    add_address(parser)
    found = parser.parse_args(arguments)
    if not found.root.strip():
        return usage_error("the argument ROOT is empty: `acker emit` has printed no header, or the variable is not set")
    return _report(partial(_join, found))


def _report(command: Callable[[], int]) -> int:
    try:
        return command()
    except UsageError as error:
        return usage_error(str(error))
    except AckerError as error:
        print_line(f"acker: {error}", file=sys.stderr)
        return 1


def _emit(found: argparse.Namespace) -> int:
    address = address_of(found)
    with Acker(address.url, address.topology, address.api_key) as acker:
        task = acker.spout("acker-emit") if found.spout is None else acker.shared_spout(found.spout)
        options = {"message_timeout": found.message_timeout, "trace": found.trace, "end_on": found.end_on}
        with task.emit(message_id=found.message_id, **options) as root:
            header = root.headers()[ANCHORS]
    print_line(header)
    return 0


def _ack(found: argparse.Namespace) -> int:
    header = found.header or os.environ.get(ANCHORS_VARIABLE)
    if not header:
        raise UsageError("give the header that acker emit printed, or set ACKER_ANCHORS to it")
    if found.fail and found.children:
        raise UsageError("a tuple that fails has no children: leave --children out")
    address, anchors = address_of(found), parse_anchors(header)
    with Acker(address.url, anchors.topology, address.api_key, linger=0) as acker:
        tup = acker.receive(anchors.headers(), component=found.component)
        children = [tup.headers()[ANCHORS] for _ in range(found.children)]
        states = tup.fail(found.reason) if found.fail else acker.ack(tup)
    for child in children:
        print_line(child)
    for state in states:
        print_line(f"acker: {state}", file=sys.stderr)
    return 0


def _join(found: argparse.Namespace) -> int:
    address, given = address_of(found), found.root.strip()
    topology, root_id = root_of_header(given) if " " in given else (address.topology, given)
    try:
        with Acker(address.url, topology, address.api_key) as acker:
            root = acker.roots.get(root_id, wait=found.wait)
    except NotFound:
        with closing(Service(replace(address, topology=topology))) as service:
            failure = failure_of(service, topology, root_id)  # it outlives the root
        if failure is None:
            print_line("unknown")
            return UNKNOWN
        outcome = Outcome(failure["outcome"])
        known = {"component": failure["component"], "reason": failure["reason"]}
        root = RootInfo(root_id=root_id, state="finished", outcome=outcome, **known)
    if why := ": ".join(filter(None, (root.component, root.reason))):
        print_line(f"acker: {why}", file=sys.stderr)
    print_line(root.outcome or root.state)
    return STILL_OPEN if root.outcome is None else EXIT_CODES[root.outcome]
