"""``acker root find``: where the message or root of an id is."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, table
from acker_client._cli.root_ids import DIGITS, is_root_prefix
from acker_client._cli.service import PAGE, Service
from acker_client._cli.session import ServiceParser
from acker_client._cli.spans import span
from acker_client.errors import Forbidden, NotFound

NOT_FOUND = (
    "{id!r} is not found among the pending roots, failures, unread completions and dead letters of {topologies}. "
    "An acked root whose completion was released is not kept, so it is not found either"
)

Matches = Callable[[Mapping[str, Any]], bool]


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Search all topologies; exit 1 if nothing is found."""
    parser = ServiceParser("root find", description, arguments="ID")
    parser.add_argument("id", metavar="ID", help="A message id, or a root id, or 8 or more of its digits.")
    parser.options.add_argument("--topology", metavar="NAME", help="Search this one only.")
    return parser.run(arguments, _find)


def _find(service: Service, found: argparse.Namespace) -> Result:
    searched = [found.topology] if found.topology else _names(service)
    items, notes = list[dict[str, Any]](), list[str]()
    for topology in searched:
        items += _pending(service, topology, found.id)
        items += _failures(service, topology, _matching(found.id))
        try:
            items += _waiting(service, topology, _matching(found.id))
        except Forbidden:
            notes.append(
                f"the key lacks the scope spout: unread completions and dead letters of {topology} are not searched"
            )
    if not items:
        topologies = searched[0] if len(searched) == 1 else f"{len(searched)} topologies"
        notes.append(NOT_FOUND.format(id=found.id, topologies=topologies))
    columns = ("ROOT", "TOPOLOGY", "SPOUT_TASK", "MESSAGE_ID", "FOUND_IN", "STATE", "LAST_COMPONENT", "AGE")
    now = time.time() * 1000
    names = ("root_id", "topology", "spout_task", "message_id", "found_in", "state", "last_component")
    rows = ((*(one[name] for name in names), span(now - one["since_at_ms"])) for one in items)
    lines = table(columns, rows) if items else []
    return Result(document={"found": items}, items=items, lines=lines, notes=notes, exit_code=0 if items else 1)


def _names(service: Service) -> list[str]:
    return [one["topology"] for one in service.get(routes.topologies())["topologies"]]


def _matching(wanted: str) -> Matches:
    """Return what says whether a record is of this message, or of a root that begins so."""
    prefix = wanted.lower() if is_root_prefix(wanted.lower()) else None
    return lambda record: (
        record["message_id"] == wanted or (prefix is not None and str(record["root_id"]).startswith(prefix))
    )


def _pending(service: Service, topology: str, wanted: str) -> list[dict[str, Any]]:
    """Find pending roots by their message; by their own id too, which is one look-up where it is whole."""
    path, prefix = routes.roots(topology), wanted.lower()
    found = {root["root_id"]: root for root in _pages(service, path, "roots", "cursor", message_id=wanted)}
    if len(prefix) == DIGITS and is_root_prefix(prefix):
        with suppress(NotFound):
            found[prefix] = service.get(routes.root(topology, prefix))
    elif is_root_prefix(prefix):
        roots = _pages(service, path, "roots", "cursor")
        found |= {root["root_id"]: root for root in roots if root["root_id"].startswith(prefix)}
    return [_found(topology, "roots", root) for root in found.values()]


def _failures(service: Service, topology: str, matches: Matches) -> Iterator[dict[str, Any]]:
    failures = _pages(service, f"{routes.topology(topology)}/failures", "failures", "after")
    return (_found(topology, "failures", one) for one in failures if matches(one))


def failure_of(service: Service, topology: str, root_id: str) -> dict[str, Any] | None:
    """Return the newest record of a root's failure, None if there is none; it is kept for longer than the root is."""
    failures = _pages(service, f"{routes.topology(topology)}/failures", "failures", "after")
    return next((one for one in failures if one["root_id"] == root_id), None)


def _waiting(service: Service, topology: str, matches: Matches) -> Iterator[dict[str, Any]]:
    """Find unread completions and dead letters, of spout tasks that have any."""
    for spout in service.get(routes.spouts(topology))["spouts"]:
        task = {"spout_task": spout["spout_task"]}
        if spout["unread"]:
            path = routes.completions(topology, spout["spout_task"])
            for one in _pages(service, path, "completions", "after", peek="true"):
                if matches(one):
                    yield _found(topology, "completions", one | task)
        if spout["dead_letters"]:
            for one in _pages(service, routes.dead_letters(topology, spout["spout_task"]), "dead_letters", "after"):
                if matches(one):
                    yield _found(topology, "dead_letters", one | task)


def _pages(service: Service, path: str, key: str, cursor: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Read a list to its end: its cursor is null, or the page is empty in a list whose cursor never is."""
    ends_by_cursor = key in ("roots", "failures")
    while True:
        page = service.get(path, limit=PAGE, **query)
        yield from page[key]
        if page["cursor"] is None or (not page[key] and not ends_by_cursor):
            return
        query[cursor] = page["cursor"]


def _found(topology: str, found_in: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a match, the same for a root, a failure and a completion."""
    since = record.get("at_ms")
    return {
        "root_id": record["root_id"],
        "topology": topology,
        "spout_task": record.get("spout_task"),
        "message_id": record.get("message_id"),
        "found_in": found_in,
        "state": record.get("outcome") or record["state"],
        "last_component": record.get("last_component") or record.get("component"),
        "since_at_ms": since if since is not None else int(time.time() * 1000) - (record.get("age_ms") or 0),
    }
