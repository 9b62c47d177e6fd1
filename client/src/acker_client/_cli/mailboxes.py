"""``acker completions`` and ``dead-letters``: what waits for the reader of a spout task."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Form, Result, more, table
from acker_client._cli.service import PAGE, Service
from acker_client._cli.session import ServiceParser, add_limit, add_spout_task, confirm
from acker_client._cli.spans import clock_time, read_time, span

WAIT_S = 20


def completions(arguments: Sequence[str], *, description: str | None) -> int:
    """Show the unread completions of a spout task; nothing is released, and its reader does not notice."""
    parser = ServiceParser("completions", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    parser.options.add_argument("--follow", action="store_true", help="Show further ones as they come, until Ctrl-C.")
    add_limit(parser)
    return parser.run(arguments, _completions)


def list_dead_letters(arguments: Sequence[str], *, description: str | None) -> int:
    """List the completions that could not be delivered."""
    parser = _dead_letters_parser("list", description)
    add_limit(parser)
    return parser.run(arguments, _list)


def replay_dead_letters(arguments: Sequence[str], *, description: str | None) -> int:
    """Deliver dead letters again."""
    return _dead_letters_parser("replay", description).run(arguments, _replay)


def discard_dead_letters(arguments: Sequence[str], *, description: str | None) -> int:
    """Delete dead letters."""
    parser = _dead_letters_parser("discard", description)
    parser.options.add_argument("--yes", action="store_true", help="Do not ask.")
    return parser.run(arguments, _discard)


def _dead_letters_parser(verb: str, description: str | None) -> ServiceParser:
    """Make the parser of a verb, with what chooses among dead letters."""
    parser = ServiceParser(f"dead-letters {verb}", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    add = parser.options.add_argument
    since = "Only those whose last try was not before; 2h is two hours ago."
    add("--error", metavar="TEXT", help="Only those whose error contains this.")
    add("--since", type=read_time, metavar="TIME", help=since)
    add("--until", type=read_time, metavar="TIME", help="Only those whose last try was not after.")
    return parser


def completion_rows(found: Sequence[Mapping[str, Any]], *, dead: bool = False) -> list[str]:
    """Lay out completions, or dead letters."""
    more = ("attempts", "error") if dead else ()
    names = ("AT", "ROOT", "OUTCOME", "MESSAGE_ID", "TOOK", "COMPONENT", "FAILURES", "REASON")
    columns = (*names, *(each.upper() for each in more))
    rows = (
        (
            clock_time(one["at_ms"]),
            one["root_id"],
            one["outcome"],
            one["message_id"],
            span(one["complete_latency_ms"]),
            one["component"] or one.get("last_component"),
            one.get("failures"),
            one["reason"],
            *(one[each] for each in more),
        )
        for one in found
    )
    return table(columns, rows, none="no dead letter fits" if dead else "no completion is unread")


def _completions(service: Service, found: argparse.Namespace) -> Result:
    path = routes.completions(found.topology, found.spout_task)
    page = _page(service, path, limit=found.limit)
    result = _shown(page, page["completions"])
    if not found.follow:
        result = replace(result, notes=more(page, page["completions"], found.limit))
    while found.follow:
        if page["completions"]:
            result.print(Form(found.output))
        page = service.get(path, peek="true", after=page["cursor"], limit=PAGE, wait_ms=WAIT_S * 1000, wait_s=WAIT_S)
        result = _shown(page, page["completions"])
    return result


def _page(service: Service, path: str, *, limit: int) -> dict[str, Any]:
    """Read up to ``limit`` completions: a page ends early where they are large."""
    page = service.get(path, peek="true", limit=min(PAGE, limit))
    found = page["completions"]
    while page["completions"] and len(found) < limit:
        page = service.get(path, peek="true", after=page["cursor"], limit=min(PAGE, limit - len(found)))
        found += page["completions"]
    return page | {"completions": found}


def _shown(page: dict[str, Any], found: list[dict[str, Any]]) -> Result:
    return Result(document=page, items=found, lines=completion_rows(found))


def _list(service: Service, found: argparse.Namespace) -> Result:
    path, filters = routes.dead_letters(found.topology, found.spout_task), _filters(found)
    page = service.get(path, limit=found.limit, **filters)
    listed = page["dead_letters"]
    while page.get("more") and len(listed) < found.limit:  # a page that filters ends after a second, too
        page = service.get(path, after=page["cursor"], limit=found.limit - len(listed), **filters)
        listed += page["dead_letters"]
    page = page | {"dead_letters": listed}
    notes = more(page, listed, found.limit)
    return Result(document=page, items=listed, lines=completion_rows(listed, dead=True), notes=notes)


def _replay(service: Service, found: argparse.Namespace) -> Result:
    return _act(service, found, "replay")


def _discard(service: Service, found: argparse.Namespace) -> Result:
    confirm(f"Discard dead letters of {found.topology}/{found.spout_task}?", yes=found.yes)
    return _act(service, found, "discard")


def _act(service: Service, found: argparse.Namespace, verb: str) -> Result:
    given = {name: value for name, value in _filters(found).items() if value is not None}
    path = f"{routes.dead_letters(found.topology, found.spout_task)}/{verb}"
    document = service.send("POST", path, given or None)
    return Result(document=document, lines=[f"{value} {name}" for name, value in document.items()])


def _filters(found: argparse.Namespace) -> dict[str, Any]:
    return {"error": found.error, "from_ms": found.since, "to_ms": found.until}
