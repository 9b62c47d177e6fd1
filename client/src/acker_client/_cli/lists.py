"""``acker root list`` and ``failures``: the roots that a topology has, and those that failed."""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, more, table
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_limit, add_topology, name
from acker_client._cli.spans import ago, clock_time, read_span, read_time, span

GROUPED_BY = ("outcome", "component", "reason")


def roots(arguments: Sequence[str], *, description: str | None) -> int:
    """List pending roots, those with the nearest deadlines first."""
    parser = ServiceParser("root list", description, arguments="TOPOLOGY")
    add_topology(parser)
    add = parser.options.add_argument
    add("--older-than", type=read_span, metavar="TIME", help="Only roots of at least this age, as 90s, 5m or 2h.")
    add("--no-ack-for", type=read_span, metavar="TIME", help="Only roots that got no ack for so long.")
    add("--message-id", metavar="ID", help="Only roots of this message.")
    add("--text", metavar="TEXT", help="Only roots whose message id or last component contains this.")
    add("--spout", type=name, metavar="NAME", help="Only roots of this spout task.")
    add_limit(parser)
    parser.watchable()
    return parser.run(arguments, _roots)


def failures(arguments: Sequence[str], *, description: str | None) -> int:
    """List the roots that failed or timed out, the newest first."""
    parser = ServiceParser("failures", description, arguments="TOPOLOGY")
    add_topology(parser)
    add = parser.options.add_argument
    add("--outcome", choices=("failed", "timed_out"), help="Only roots that ended so.")
    add("--spout", type=name, metavar="NAME", help="Only roots of this spout task.")
    add("--component", type=name, metavar="NAME", help="Only roots that this component failed, or acked last.")
    add("--reason", metavar="TEXT", help="Only roots whose reason contains this.")
    add("--text", metavar="TEXT", help="Only roots whose message id, reason or component contains this.")
    add("--since", type=read_time, metavar="TIME", help="Only roots that ended not before; 2h is two hours ago.")
    add("--until", type=read_time, metavar="TIME", help="Only roots that ended not after.")
    add("--group", action="store_true", help="Count them by outcome, component and reason.")
    add_limit(parser)
    parser.watchable()
    return parser.run(arguments, _failures)


def root_rows(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lay out roots."""
    now = time.time() * 1000
    columns = ("ROOT", "STATE", "SPOUT_TASK", "MESSAGE_ID", "OPEN", "AGE", "LAST_ACK", "COMPONENT", "TIMES_OUT")
    rows = (
        (
            root["root_id"],
            root["state"],
            root["spout_task"],
            root["message_id"],
            root["outstanding"],
            span(root["age_ms"]),
            ago(root.get("last_ack_at_ms"), now),
            root.get("last_component"),
            f"in {span(root['deadline_at_ms'] - now)}",
        )
        for root in found
    )
    return table(columns, rows, none="no root is pending that fits")


def failure_rows(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lay out failures."""
    names = ("root_id", "outcome", "spout_task", "message_id", "component", "failures", "reason")
    rows = ((clock_time(one["at_ms"]), *(one.get(each) for each in names)) for one in found)
    return table(("AT", "ROOT", *(each.upper() for each in names[1:])), rows, none="no root failed that fits")


def _roots(service: Service, found: argparse.Namespace) -> Result:
    document = service.collect(
        routes.roots(found.topology),
        "roots",
        limit=found.limit,
        cursor_name="cursor",
        older_than_ms=found.older_than,
        no_ack_for_ms=found.no_ack_for,
        message_id=found.message_id,
        text=found.text,
        spout_task=found.spout,
    )
    return Result(
        document=document,
        items=document["roots"],
        lines=root_rows(document["roots"]),
        notes=more(document, document["roots"], found.limit),
    )


def _failures(service: Service, found: argparse.Namespace) -> Result:
    document = service.collect(
        f"{routes.topology(found.topology)}/failures",
        "failures",
        limit=found.limit,
        cursor_name="after",
        outcome=found.outcome,
        spout_task=found.spout,
        component=found.component,
        reason=found.reason,
        text=found.text,
        from_ms=found.since,
        to_ms=found.until,
    )
    listed = document["failures"]
    notes = more(document, listed, found.limit)
    if not found.group:
        return Result(document=document, items=listed, lines=failure_rows(listed), notes=notes)
    groups = _groups(listed)
    columns = ("COUNT", *(each.upper() for each in GROUPED_BY))
    lines = table(columns, (tuple(group.values()) for group in groups), none="no root failed that fits")
    return Result(document={"groups": groups}, items=groups, lines=lines, notes=notes)


def _groups(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(tuple(one[each] for each in GROUPED_BY) for one in listed)
    return [{"count": count} | dict(zip(GROUPED_BY, key, strict=True)) for key, count in counts.most_common()]
