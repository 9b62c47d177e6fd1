"""``acker spout``: lists, shows, changes and deletes spout tasks."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, pairs, table
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_spout_task, add_topology, confirm
from acker_client._cli.spans import ago, when
from acker_client.errors import UsageError

CALLBACKS = {"none": None, "pubsub": {"kind": "pubsub"}}
"""The callbacks that need no address, by their names on the command line."""


def list_all(arguments: Sequence[str], *, description: str | None) -> int:
    """List the spout tasks of a topology."""
    parser = ServiceParser("spout list", description, arguments="TOPOLOGY")
    add_topology(parser)
    parser.watchable()
    return parser.run(arguments, _list)


def show(arguments: Sequence[str], *, description: str | None) -> int:
    """Show a spout task."""
    parser = ServiceParser("spout show", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    parser.watchable()
    return parser.run(arguments, _show)


def change(arguments: Sequence[str], *, description: str | None) -> int:
    """Create a spout task, or change the one of this name."""
    parser = ServiceParser("spout set", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    add = parser.options.add_argument
    add("--callback", choices=CALLBACKS, help="none: readers pull completions; pubsub: Redis publishes them.")
    add("--ephemeral", choices=("on", "off"), help="Whether it is deleted when it is unused.")
    return parser.run(arguments, _change)


def delete(arguments: Sequence[str], *, description: str | None) -> int:
    """Delete a spout task."""
    parser = ServiceParser("spout delete", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    add = parser.options.add_argument
    add("--discard", action="store_true", help="Delete it with its roots and completions, which are lost.")
    add("--yes", action="store_true", help="Do not ask before a discard.")
    return parser.run(arguments, _delete)


def _list(service: Service, found: argparse.Namespace) -> Result:
    document = service.get(routes.spouts(found.topology))
    now = time.time() * 1000
    columns = ("SPOUT_TASK", "CALLBACK", "PENDING", "UNREAD", "DEAD", "OLDEST_UNREAD", "LAST_READ", "LAST_EMIT")
    rows = (
        (
            one["spout_task"],
            _callback(one["callback"]),
            one["pending"],
            one["unread"],
            one["dead_letters"],
            *tuple(ago(one.get(each), now) for each in ("oldest_unread_at_ms", "last_read_at_ms", "last_emit_at_ms")),
        )
        for one in document["spouts"]
    )
    return Result(document=document, items=document["spouts"], lines=table(columns, rows))


def _show(service: Service, found: argparse.Namespace) -> Result:
    return _shown(service.get(routes.spout(found.topology, found.spout_task)))


def _change(service: Service, found: argparse.Namespace) -> Result:
    document: dict[str, Any] = {}
    if found.callback is not None:
        document["callback"] = CALLBACKS[found.callback]
    if found.ephemeral is not None:
        document["ephemeral"] = found.ephemeral == "on"
    if not document:
        raise UsageError("nothing to set: give --callback or --ephemeral")
    return _shown(service.send("PUT", routes.spout(found.topology, found.spout_task), document))


def _delete(service: Service, found: argparse.Namespace) -> Result:
    name = f"{found.topology}/{found.spout_task}"
    if found.discard:
        confirm(f"Delete {name} and lose its completions?", yes=found.yes)
    query = {"discard": "true"} if found.discard else {}
    service.delete(routes.spout(found.topology, found.spout_task), **query)
    document = {"topology": found.topology, "spout_task": found.spout_task, "deleted": True}
    return Result(document=document, lines=[f"{name} is deleted"])


def _shown(document: dict[str, Any]) -> Result:
    now = time.time() * 1000
    fields = document | {"callback": _callback(document["callback"])}
    lines = pairs((name, when(value, now) if name.endswith("_at_ms") else value) for name, value in fields.items())
    return Result(document=document, lines=lines)


def _callback(callback: Mapping[str, Any] | None) -> str | None:
    return None if callback is None else f"{callback['kind']} {callback['state']}"
