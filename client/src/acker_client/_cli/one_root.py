"""``acker root show``, ``tree`` and ``fail``: single roots."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, pairs, table
from acker_client._cli.root_ids import full_root_id, root_prefix
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_topology, confirm
from acker_client._cli.spans import ago, span, when
from acker_client.errors import AckerError, ServiceError, UnknownRoot

NOT_TRACED = (
    "it was not traced, so only the last component and the number of open edges are known; "
    "the setting trace of its topology, or trace in an init, traces roots"
)
TRUNCATED = (
    "edges or acks are missing: an operation named no edge, or came before the root was traced, "
    "or the trace reached its bound (docs/explain.md)"
)
TIMES = frozenset({"deadline_at_ms", "last_ack_at_ms", "at_ms"})


def show(arguments: Sequence[str], *, description: str | None) -> int:
    """Show a root."""
    parser = ServiceParser("root show", description, arguments="TOPOLOGY ROOT")
    _add_root(parser)
    parser.watchable()
    return parser.run(arguments, _show)


def tree(arguments: Sequence[str], *, description: str | None) -> int:
    """Show the tuples of a traced root, and which of them are open."""
    parser = ServiceParser("root tree", description, arguments="TOPOLOGY ROOT")
    _add_root(parser)
    parser.options.add_argument("--open", action="store_true", help="Show only what is open, and the way to it.")
    parser.watchable()
    return parser.run(arguments, _tree)


def fail(arguments: Sequence[str], *, description: str | None) -> int:
    """Fail pending roots as operator."""
    parser = ServiceParser("root fail", description, arguments="TOPOLOGY ROOT...")
    add_topology(parser)
    parser.add_argument(
        "roots", metavar="ROOT", nargs="+", type=root_prefix, help="Root ids, 8 or more digits of each, or headers."
    )
    parser.options.add_argument("--reason", metavar="TEXT", help="Why; the completion has it.")
    parser.options.add_argument("--yes", action="store_true", help="Do not ask.")
    return parser.run(arguments, _fail)


def _add_root(parser: ServiceParser) -> None:
    add_topology(parser)
    parser.add_argument(
        "root", metavar="ROOT", type=root_prefix, help="A root id, 8 or more of its digits, or a header."
    )


def _show(service: Service, found: argparse.Namespace) -> Result:
    root_id = full_root_id(service, found.topology, found.root)
    try:
        document = service.get(routes.root(found.topology, root_id))
    except UnknownRoot as error:
        raise AckerError(
            f"{error}; acker root find {root_id} looks among failures, unread completions and dead letters"
        ) from None
    now = time.time() * 1000
    return Result(document=document, lines=pairs((name, _shown(name, value, now)) for name, value in document.items()))


def _shown(name: str, value: Any, now: float) -> Any:
    if value is None:
        return None
    if name in TIMES:
        return when(value, now)
    return span(value) if name == "age_ms" else value


def _tree(service: Service, found: argparse.Namespace) -> Result:
    root_id = full_root_id(service, found.topology, found.root)
    document = service.get(f"{routes.root(found.topology, root_id)}/tree")
    head = pairs(
        (name, document[name])
        for name in ("root_id", "state", "outcome", "spout_task", "message_id", "last_component", "outstanding")
    )
    if not document["traced"]:
        return Result(document=document, items=document["edges"], lines=head, notes=[NOT_TRACED])
    edges = _way_to_open(document["edges"]) if found.open else document["edges"]
    notes = [TRUNCATED] if document["truncated"] else []
    lines = [*head, "", *_drawn(edges, time.time() * 1000)]
    return Result(document=document, items=document["edges"], lines=lines, notes=notes)


def _way_to_open(edges: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Keep the edges that are not acked, and those that lead to them."""
    by_id = {edge["edge_id"]: edge for edge in edges}
    kept = set[str]()
    for edge in edges:
        at: Mapping[str, Any] | None = edge if edge["state"] != "acked" else None
        while at is not None and at["edge_id"] not in kept:
            kept.add(at["edge_id"])
            at = by_id.get(at["parent"] or "")
    return [edge for edge in edges if edge["edge_id"] in kept]


def _drawn(edges: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Lay the edges out as a tree, children below their parent; without recursion, since trees are deep."""
    ids = {edge["edge_id"] for edge in edges}
    children: dict[str | None, list[Mapping[str, Any]]] = {}
    for edge in edges:
        children.setdefault(edge["parent"] if edge["parent"] in ids else None, []).append(edge)
    rows, seen = [], set[str]()
    stack = [(edge, 0) for edge in reversed(children.get(None, []))]
    while stack:
        edge, depth = stack.pop()
        if edge["edge_id"] in seen:
            continue
        seen.add(edge["edge_id"])
        where = "  " * depth + edge["edge_id"]
        rows.append((where, edge["component"], edge["state"], ago(edge["since_at_ms"], now)))
        stack += [(child, depth + 1) for child in reversed(children.get(edge["edge_id"], []))]
    return table(("EDGE", "MADE_BY", "STATE", "SINCE"), rows, none="no edge is open")


def _fail(service: Service, found: argparse.Namespace) -> Result:
    ids = [full_root_id(service, found.topology, prefix) for prefix in found.roots]
    confirm(f"Fail {len(ids)} roots of {found.topology}?", yes=found.yes)
    body = {} if found.reason is None else {"reason": found.reason}
    answers, notes = [], []
    for root_id in ids:
        try:
            answers.append(service.send("POST", routes.force_fail(found.topology, root_id), body))
        except ServiceError as error:
            notes.append(str(error))
    rows = ((one["root_id"], one["state"], one.get("outcome")) for one in answers)
    lines = table(("ROOT", "STATE", "OUTCOME"), rows)
    return Result(document={"results": answers}, items=answers, lines=lines, notes=notes, exit_code=1 if notes else 0)
