"""``acker run``: a command as a bolt."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from acker_protocol.ids import format_id
from acker_protocol.operations import OperationState, Outcome
from acker_protocol.routes import ANCHORS

from acker_client._cli.command import Command, Ended
from acker_client._cli.parsing import Parser, print_line, usage_error
from acker_client._cli.reason_search import ReasonSearch
from acker_client._core import validate
from acker_client._proxy import proxy_to
from acker_client.config import address_from
from acker_client.errors import AckerError, UsageError
from acker_client.integrations.process import (
    ANCHORS_VARIABLE,
    CHILDREN_VARIABLE,
    ChildrenFile,
    children_of,
    received_headers,
)
from acker_client.propagate import extract

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

    from acker_client.config import OnError
    from acker_client.sync.client import Acker
    from acker_client.tuple import Tuple

NOT_ACKED = 125
"""The exit code where the command was not started, or its ack could not be delivered; as of env, nohup and timeout."""

EMPTY_ANCHORS = (
    f"{ANCHORS_VARIABLE} is empty, so this run is not tracked: has `acker emit` failed? Unset the variable to run "
    "untracked without this line"
)
ENDED = "the command is not run, since its tree has ended"
DONE_BEFORE = "the tree was done before this ack, which counts for nothing: do two runs share one header?"

MAX_RESET_S = 604_800
"""As the longest message timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What to run, as which bolt, and when to reset the timeout (seconds; None: by the timeouts of the roots).

    ``reason_from`` is an expression: a line in which it is found says why the command failed. ``skip_ended`` does not
    run a command whose roots have all ended.
    """

    command: Sequence[str]
    component: str
    key: str | None
    on_error: "OnError"
    reset_interval: float | None
    reason_from: str | None
    skip_ended: bool


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Run the command behind ``--``, and give its exit code or `NOT_ACKED`."""
    options = _read_options(arguments, description=description)
    if not options.command:
        return usage_error("the command to run stands behind --; see acker run --help")
    try:
        return _run(options)
    except (AckerError, OSError) as error:
        print_line(f"acker: {error}", file=sys.stderr)
        return NOT_ACKED


def _read_options(arguments: Sequence[str], *, description: str | None) -> RunOptions:
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    parser = Parser("run", description, arguments="-- COMMAND [ARGS]...")
    add = parser.options.add_argument
    add("--component", required=True, metavar="NAME", help="The name of the bolt.")
    add("--key", help="Within another run: a re-run with this key gets the same edge.")
    add("--on-error", choices=("fail", "leave-open"), default="fail", help="leave-open: the queue redelivers [fail].")
    add("--reset-interval", type=float, metavar="SECONDS", help="How often the timeout is reset [a third of it].")
    add("--skip-ended", action="store_true", help="Run nothing, and exit with 0, if all its roots have ended.")
    add("--reason-from", metavar="REGEX", help="The last line with it, of stderr or stdout, is the reason.")
    found = parser.parse_args(arguments[:at])
    return RunOptions(
        command=arguments[at + 1 :],
        component=found.component,
        key=found.key,
        on_error="leave_open" if found.on_error == "leave-open" else "fail",
        reset_interval=found.reset_interval,
        reason_from=found.reason_from,
        skip_ended=found.skip_ended,
    )


def _run(options: RunOptions) -> int:
    """Start the command as early as possible: the client is imported while it runs."""
    search = _search_for(options.reason_from)
    if os.environ.get(ANCHORS_VARIABLE):
        _check(options)  # before a child is listed: one that is listed has to be acked
    elif ANCHORS_VARIABLE in os.environ:
        print_line(f"acker: {EMPTY_ANCHORS}", file=sys.stderr)
    anchors = extract(received_headers(options.key))
    if anchors is None:
        return Command(options.command, environment=os.environ, keep_reason=False).wait().exit_code
    around = children_of(os.environ[ANCHORS_VARIABLE], os.environ)
    acker = _connect(anchors) if options.skip_ended or options.on_error == "leave_open" else None
    if acker is not None and options.skip_ended and _has_ended(acker, anchors, options):
        return 0
    needs_keys = (
        acker is not None
        and options.on_error == "leave_open"
        and not acker.topologies.get(anchors.topology).dedupe_window
    )
    children = ChildrenFile.create(anchors, component=options.component, needs_keys=needs_keys)
    own = {ANCHORS_VARIABLE: anchors.headers()[ANCHORS], CHILDREN_VARIABLE: str(children.path)}
    command = Command(options.command, environment=os.environ | own, keep_reason=True, search=search)
    with acker or _connect(anchors) as acker:
        from acker_client.sync.keep_alive import kept_alive  # noqa: PLC0415 - as in `_connect`

        tup = acker.receive(anchors.headers(), component=options.component, on_error=options.on_error)
        with kept_alive(tup, topologies=acker.topologies, roots=acker.roots, interval=options.reset_interval):
            ended = command.wait()
        return _end(acker, tup, ended, children, around)


def _search_for(expression: str | None) -> ReasonSearch | None:
    """Return what looks for the reason. Raises `UsageError` for what is no expression."""
    if expression is None:
        return None
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--reason-from must be a regular expression of Python: {error}, in {expression!r}") from None
    return ReasonSearch(expression=expression)


def _check(options: RunOptions) -> None:
    """Refuse before the command is started what the client would refuse. Raises `UsageError`."""
    validate.name("--component", options.component)
    url = urlsplit(address_from().url)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise UsageError(f"ACKER_URL must be an http or https URL, not {url.geturl()!r}")
    proxy_to(url.geturl())
    if options.reset_interval is not None and not 0 < options.reset_interval <= MAX_RESET_S:
        raise UsageError(f"--reset-interval must be above 0 and at most {MAX_RESET_S}, not {options.reset_interval}")


def _connect(anchors: "Anchors") -> "Acker":
    from acker_client.sync.client import Acker  # noqa: PLC0415 - httpx takes most of the time of a start

    address = address_from()
    return Acker(address.url, anchors.topology, address.api_key, linger=0, startup_timeout=None)


def _has_ended(acker: "Acker", anchors: "Anchors", options: RunOptions) -> bool:
    """Whether all roots of the tuple have ended; then a line says that nothing is run."""
    ended = acker.receive(anchors.headers(), component=options.component).skip_if_ended()
    if ended:
        acker.close()
        print_line(f"acker: {ENDED}", file=sys.stderr)
    return ended


def _end(acker: "Acker", tup: "Tuple", ended: Ended, children: ChildrenFile, around: ChildrenFile | None) -> int:
    """Ack the tuple with its children, or fail it with them; it is failed, too, where it is unknown which it has."""
    try:
        listed = children.close()
    except UsageError as error:
        tup.fail(str(error))
        raise
    if ended.exit_code:
        if tup.on_error == "fail":
            _fail(tup, ended, listed)
        return ended.exit_code
    for child in listed:
        _add_child(tup, child)
    if around is not None and not around.claim_ack(tup.anchors):
        raise UsageError("another run with the same key has acked this edge meanwhile; a key is of one piece of work")
    if OperationState.FINISHED in acker.ack(tup) and _was_done(acker, tup):
        print_line(f"acker: {DONE_BEFORE}", file=sys.stderr)
    return 0


def _was_done(acker: "Acker", tup: "Tuple") -> bool:
    """Whether a root of a tuple was acked without it; not where messages may come twice, or nothing is tracked.

    The ack is delivered: an error of the acker here changes nothing.
    """
    with suppress(AckerError):
        topology = acker.topologies.get(tup.anchors.topology)
        if topology.ackers and not topology.dedupe_window:
            roots = (acker.roots.get(format_id(anchor.root_id)) for anchor in tup.anchors.anchors)
            return any(root.outcome is Outcome.ACKED for root in roots)
    return False


def _fail(tup: "Tuple", ended: Ended, children: "Sequence[Anchors]") -> None:
    """Fail the tuple. An error there does not replace the exit code of the command: the roots time out.

    A root that ends when all have ended waits for the children that the command has handed on.
    """
    try:
        for child in children:
            with suppress(UsageError):  # a child of other roots; the tuple fails all the same
                _add_child(tup, child)
        tup.fail(ended.reason)
    except AckerError as error:
        print_line(f"acker: {error}", file=sys.stderr)


def _add_child(tup: "Tuple", child: "Anchors") -> None:
    """Count a child that another process has anchored to this tuple. Raises `UsageError` for one of other roots."""
    parents = tup.parents("")
    if [parent.root_id for parent in parents] != [anchor.root_id for anchor in child.anchors]:
        raise UsageError(f"the file of children has one of other roots: {child.headers()}")
    for parent, anchor in zip(parents, child.anchors, strict=True):
        parent.add(anchor.edge_id, None, keyed=True)
