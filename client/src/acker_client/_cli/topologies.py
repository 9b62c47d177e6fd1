"""``acker topology``: creates, shows, changes, deletes and lists topologies."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes
from acker_protocol.operations import EndOn

from acker_client._cli.output import Result, pairs, table
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_topology, confirm
from acker_client._cli.spans import read_span
from acker_client._core.topology import AUTOMATIC_WINDOW, given_fields
from acker_client.errors import UnknownTopology, UsageError

OUTCOMES = ("acked", "failed", "timed_out")
AUTOMATIC = "automatic"
SETTINGS = {
    "ackers": "ackers",
    "message_timeout": "message_timeout_ms",
    "progress_timeout": "progress_timeout_ms",
    "max_spout_pending": "max_spout_pending",
    "dedupe_window": "dedupe_window_ms",
    "retention": "retention_ms",
    "root_details": "root_details",
    "trace": "trace",
    "end_on": "end_on",
    "grace": "grace_ms",
}
"""The fields of the contract that options set, by the names of the options."""


def create(arguments: Sequence[str], *, description: str | None) -> int:
    """Create a topology, or change the one of this name; a new one has an automatic dedupe window."""
    parser = ServiceParser("topology create", description, arguments="TOPOLOGY")
    add_topology(parser)
    parser.options.add_argument("--ackers", type=_count, metavar="N", help="The shards of its roots [4].")
    _add_settings(parser)
    return parser.run(arguments, _create)


def show(arguments: Sequence[str], *, description: str | None) -> int:
    """Show a topology: its settings and counts."""
    parser = ServiceParser("topology show", description, arguments="TOPOLOGY")
    add_topology(parser)
    parser.watchable()
    return parser.run(arguments, _show)


def change(arguments: Sequence[str], *, description: str | None) -> int:
    """Change the settings of a topology that exists."""
    parser = ServiceParser("topology set", description, arguments="TOPOLOGY")
    add_topology(parser)
    _add_settings(parser)
    return parser.run(arguments, _change)


def delete(arguments: Sequence[str], *, description: str | None) -> int:
    """Delete a topology."""
    parser = ServiceParser("topology delete", description, arguments="TOPOLOGY")
    add_topology(parser)
    add = parser.options.add_argument
    add("--force", action="store_true", help="Fail its pending roots, and delete it once their completions are read.")
    add("--discard", action="store_true", help="With --force: delete it at once, and lose all completions.")
    add("--yes", action="store_true", help="Do not ask.")
    return parser.run(arguments, _delete)


def list_all(arguments: Sequence[str], *, description: str | None) -> int:
    """List the topologies."""
    parser = ServiceParser("topology list", description)
    parser.watchable()
    return parser.run(arguments, _list)


def _add_settings(parser: ServiceParser) -> None:
    add = parser.options.add_argument
    add("--message-timeout", type=read_span, metavar="TIME", help="How long a root may take, as 90s or 5m [30s].")
    add("--progress-timeout", type=read_span, metavar="TIME", help="How long it may go without an ack; 0: any time.")
    add("--max-spout-pending", type=_count, metavar="N", help="Pending roots of a spout task; 0: any number.")
    add("--dedupe-window", type=_window, metavar="TIME", help="How long acked edges are remembered; 0, or automatic.")
    add("--retention", type=read_span, metavar="TIME", help="How long outcomes are remembered [1m].")
    add("--root-details", type=_switch, metavar="on|off", help="Whether roots keep what their last ack says [on].")
    add("--trace", type=_share, metavar="SHARE", help="The share of the roots that are traced, 0 to 1 [0].")
    add(
        "--end-on",
        choices=[str(kind) for kind in EndOn],
        help="Whether a root ends at its first fail, or when all have ended.",
    )
    add("--grace", type=read_span, metavar="TIME", help="What roots that were due in an outage get at most [0].")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)


def _window(text: str) -> int | str:
    return AUTOMATIC if text == AUTOMATIC else read_span(text)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither on nor off")
    return text == "on"


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1") from None


def _settings(found: argparse.Namespace) -> dict[str, Any]:
    """Write the fields that options set."""
    options = {field: getattr(found, option, None) for option, field in SETTINGS.items()}
    return given_fields(options, is_automatic=options.get("dedupe_window_ms") == AUTOMATIC)


def _create(service: Service, found: argparse.Namespace) -> Result:
    path, settings = routes.topology(found.topology), _settings(found)
    if "dedupe_window_ms" not in settings:
        try:
            service.get(path)
        except UnknownTopology:
            settings |= AUTOMATIC_WINDOW
    return _shown(service.send("PUT", path, settings))


def _show(service: Service, found: argparse.Namespace) -> Result:
    return _shown(service.get(routes.topology(found.topology)))


def _change(service: Service, found: argparse.Namespace) -> Result:
    path, settings = routes.topology(found.topology), _settings(found)
    if not settings:
        raise UsageError("nothing to set: give an option, as --message-timeout")
    service.get(path)  # a PUT would create one that is misspelt
    return _shown(service.send("PUT", path, settings))


def _shown(document: dict[str, Any]) -> Result:
    shown = {name: value for name, value in document.items() if name != "counts"}
    shown |= {"trace": f"{document['trace']:g}"} | document["counts"]
    return Result(document=document, lines=pairs(_readable(shown)))


def _readable(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Write times in seconds."""
    return [
        (name.removesuffix("_ms"), _seconds(value) if name.endswith("_ms") else value)
        for name, value in document.items()
    ]


def _seconds(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 1000:g} s"


def _delete(service: Service, found: argparse.Namespace) -> Result:
    name = found.topology
    if found.discard and not found.force:
        raise UsageError("--discard goes with --force")
    if found.force:
        lost = " and lose its completions" if found.discard else ""
        confirm(f"Delete {name}, fail its pending roots{lost}?", yes=found.yes)
    query = {option: "true" for option in ("force", "discard") if getattr(found, option)}
    service.delete(routes.topology(name), **query)
    waits = found.force and not found.discard
    line = f"{name} is deleted once its completions are read" if waits else f"{name} is deleted"
    return Result(document={"topology": name, "deleted": not waits}, lines=[line])


def _list(service: Service, _: argparse.Namespace) -> Result:
    document = service.get(routes.topologies())
    columns = (
        "TOPOLOGY",
        "ACKERS",
        "TIMEOUT",
        "DEDUPE",
        "PENDING",
        "UNREAD",
        *(outcome.upper() for outcome in OUTCOMES),
    )
    rows = (
        (
            one["topology"],
            one["ackers"],
            f"{one['message_timeout_ms'] / 1000:g} s",
            _shown_window(one),
            one["pending"],
            one["unread"],
            *tuple(one["counts"][outcome] for outcome in OUTCOMES),
        )
        for one in document["topologies"]
    )
    return Result(document=document, items=document["topologies"], lines=table(columns, rows))


def _shown_window(topology: Mapping[str, Any]) -> str:
    """Name a dedupe window; an automatic one is as long as the timeout beside it."""
    if topology.get("dedupe_automatic"):
        return AUTOMATIC
    window_ms = topology["dedupe_window_ms"]
    return f"{window_ms / 1000:g} s" if window_ms else "none"
