"""``acker callback``: where the completions of a spout task are delivered."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, pairs
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_spout_task
from acker_client._cli.spans import ago, clock_time, span
from acker_client.errors import UsageError

ACTS = ("show", "set", "pause", "resume", "test", "rotate")


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Show or change the callback of a spout task."""
    parser = ServiceParser("callback", description, arguments="ACT TOPOLOGY SPOUT_TASK")
    parser.add_argument("act", metavar="ACT", choices=ACTS, help=f"{', '.join(ACTS[:-1])} or {ACTS[-1]}.")
    add_spout_task(parser)
    add = parser.options.add_argument
    add("--webhook", metavar="URL", help="set: post completions to this address.")
    add("--secret", metavar="WHSEC", help="set: sign with this secret [the acker makes one].")
    add("--pubsub", action="store_true", help="set: publish completions in Redis.")
    add("--none", action="store_true", help="set: readers pull completions.")
    return parser.run(arguments, _callback)


def _callback(service: Service, found: argparse.Namespace) -> Result:
    topology, spout_task = found.topology, found.spout_task
    path = routes.spout(topology, spout_task)
    match found.act:
        case "show":
            document = service.get(path)["callback"]
            return Result(document=document, lines=_shown(document))
        case "set":
            document = service.send("PUT", path, {"callback": _wanted(found)})["callback"]
            return Result(document=document, lines=_shown(document))
        case "rotate":
            document = service.send("POST", routes.rotate(topology, spout_task))
        case "test":
            document = service.send("POST", f"{path}/test")
            return _tested(document)
        case act:
            document = service.send("POST", f"{path}/{act}")
    return Result(document=document, lines=pairs(document.items()))


def _wanted(found: argparse.Namespace) -> dict[str, Any] | None:
    """Read the callback from the options. Raises `UsageError`."""
    if (found.webhook is not None) + found.pubsub + found.none != 1:
        raise UsageError("callback set needs one of --webhook URL, --pubsub and --none")
    if found.none:
        return None
    if found.pubsub:
        return {"kind": "pubsub"}
    secret = {} if found.secret is None else {"secret": found.secret}
    return {"kind": "webhook", "url": found.webhook} | secret


def _shown(callback: Mapping[str, Any] | None) -> list[str]:
    if callback is None:
        return ["none: readers pull completions"]
    now = time.time() * 1000
    return pairs((name, _time(value, now) if name.endswith("_at_ms") else value) for name, value in callback.items())


def _time(at_ms: int | None, now: float) -> str | None:
    if at_ms is None:
        return None
    return f"{clock_time(at_ms)} ({f'in {span(at_ms - now)}' if at_ms > now else ago(at_ms, now)})"


def _tested(document: dict[str, Any]) -> Result:
    """Show the test message's answer; the exit code is 1 if the webhook did not take it."""
    status = "" if document["status"] is None else f", status {document['status']}"
    said = "delivered" if document["delivered"] else f"not delivered: {document['error']}"
    lines = [f"{said}{status}, {document['took_ms']} ms"]
    return Result(document=document, lines=lines, exit_code=0 if document["delivered"] else 1)
