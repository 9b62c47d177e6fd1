"""``acker webhook``: where the completions of a spout task are posted."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, pairs
from acker_client._cli.service import Service
from acker_client._cli.session import Action, ServiceParser, add_spout_task
from acker_client._cli.spans import when
from acker_client._core.requests import WEBHOOK_TIMEOUT_S


def change(arguments: Sequence[str], *, description: str | None) -> int:
    """Post the completions of a spout task to an address."""
    parser = ServiceParser("webhook set", description, arguments="TOPOLOGY SPOUT_TASK URL")
    add_spout_task(parser)
    parser.add_argument("url", metavar="URL", help="The address, http or https.")
    add = parser.options.add_argument
    add("--secret", metavar="WHSEC", help="Sign with this secret [the present one, else the acker makes one].")
    return parser.run(arguments, _set)


def show(arguments: Sequence[str], *, description: str | None) -> int:
    """Show the callback of a spout task."""
    return _run("show", _show, arguments, description)


def pause(arguments: Sequence[str], *, description: str | None) -> int:
    """Deliver nothing until a resume."""
    return _run("pause", _pause, arguments, description)


def resume(arguments: Sequence[str], *, description: str | None) -> int:
    """Deliver again, at once, whatever waits."""
    return _run("resume", _resume, arguments, description)


def test(arguments: Sequence[str], *, description: str | None) -> int:
    """Post a test message; exit 1 if the webhook does not take it."""
    return _run("test", _test, arguments, description)


def rotate(arguments: Sequence[str], *, description: str | None) -> int:
    """Make a new secret; the one before it signs for a day, too."""
    return _run("rotate", _rotate, arguments, description)


def _run(verb: str, action: Action, arguments: Sequence[str], description: str | None) -> int:
    parser = ServiceParser(f"webhook {verb}", description, arguments="TOPOLOGY SPOUT_TASK")
    add_spout_task(parser)
    return parser.run(arguments, action)


def _set(service: Service, found: argparse.Namespace) -> Result:
    secret = {} if found.secret is None else {"secret": found.secret}
    wanted = {"callback": {"kind": "webhook", "url": found.url} | secret}
    return _shown(service.send("PUT", routes.spout(found.topology, found.spout_task), wanted)["callback"])


def _show(service: Service, found: argparse.Namespace) -> Result:
    return _shown(service.get(routes.spout(found.topology, found.spout_task))["callback"])


def _pause(service: Service, found: argparse.Namespace) -> Result:
    return _answered(service.send("POST", routes.pause(found.topology, found.spout_task)))


def _resume(service: Service, found: argparse.Namespace) -> Result:
    return _answered(service.send("POST", routes.resume(found.topology, found.spout_task)))


def _rotate(service: Service, found: argparse.Namespace) -> Result:
    return _answered(service.send("POST", routes.rotate(found.topology, found.spout_task)))


def _test(service: Service, found: argparse.Namespace) -> Result:
    """Show the test message's answer; the exit code is 1 if the webhook did not take it."""
    path = routes.webhook_test(found.topology, found.spout_task)
    document = service.send("POST", path, wait_s=WEBHOOK_TIMEOUT_S)
    status = "" if document["status"] is None else f", status {document['status']}"
    said = "delivered" if document["delivered"] else f"not delivered: {document['error']}"
    lines = [f"{said}{status}, {document['took_ms']} ms"]
    return Result(document=document, lines=lines, exit_code=0 if document["delivered"] else 1)


def _answered(document: dict[str, Any]) -> Result:
    return Result(document=document, lines=pairs(document.items()))


def _shown(callback: Mapping[str, Any] | None) -> Result:
    if callback is None:
        return Result(document=None, lines=["none: readers pull completions"])
    now = time.time() * 1000
    lines = pairs((name, when(value, now) if name.endswith("_at_ms") else value) for name, value in callback.items())
    return Result(document=callback, lines=lines)
