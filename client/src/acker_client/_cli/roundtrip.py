"""``acker roundtrip``: one message through the acker, and how long each step takes."""

import argparse
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from acker_protocol import routes
from acker_protocol.ids import draw_id, format_id

from acker_client._cli.output import Result, table
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, count, name
from acker_client.errors import AckerError

WAIT_S = 20
STEPS = ("init", "ack", "completion", "release")


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Emit a root, ack it, and read and release its completion, under a spout task of its own that is deleted."""
    parser = ServiceParser("roundtrip", description, arguments="TOPOLOGY")
    parser.add_argument("topology", metavar="TOPOLOGY", type=name, help="The topology.")
    parser.options.add_argument("--rounds", type=count, default=3, metavar="N", help="How often [3].")
    return parser.run(arguments, _roundtrip)


def _roundtrip(service: Service, found: argparse.Namespace) -> Result:
    spout_task = f"acker-roundtrip-{secrets.token_hex(4)}"
    path = routes.spout(found.topology, spout_task)
    service.send("PUT", path, {"ephemeral": True})
    try:
        rounds = [_round(service, found.topology, spout_task) for _ in range(found.rounds)]
    finally:
        service.delete(path)
    rows = ((number, *(one[f"{step}_ms"] for step in (*STEPS, "total"))) for number, one in enumerate(rounds, 1))
    lines = table(("ROUND", *(f"{step.upper()}_MS" for step in (*STEPS, "total"))), rows)
    return Result(document={"topology": found.topology, "rounds": rounds}, items=rounds, lines=lines)


def _round(service: Service, topology: str, spout_task: str) -> dict[str, float]:
    """Take one root from its init to the release of its completion. Raises `AckerError` if it is not acked."""
    root_id, edge_id = format_id(draw_id()), format_id(draw_id())
    init = {"root_id": root_id, "spout_task": spout_task, "edges": [edge_id], "message_id": f"roundtrip-{root_id}"}
    ack = {"root_id": root_id, "edge_id": edge_id, "component": "acker-roundtrip"}
    mailbox = routes.completions(topology, spout_task)
    took = _Stopwatch()
    took.time("init", lambda: service.send("POST", routes.operation(topology, "init"), init))
    took.time("ack", lambda: service.send("POST", routes.operation(topology, "ack"), ack))
    page = took.time("completion", lambda: service.get(mailbox, wait_ms=WAIT_S * 1000, wait_s=WAIT_S))
    if [one["root_id"] for one in page["completions"] if one["outcome"] == "acked"] != [root_id]:
        raise AckerError(f"root {root_id} was not acked within {WAIT_S} s: {page['completions']}")
    release = {"cursor": page["cursor"]}
    took.time("release", lambda: service.send("POST", routes.release(topology, spout_task), release))
    return took.milliseconds()


class _Stopwatch:
    """Measures steps one after the other."""

    def __init__(self) -> None:
        self._took: dict[str, float] = {}

    def time(self, step: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Make a call, and note how long it took."""
        began = time.perf_counter()
        answer = call()
        self._took[step] = time.perf_counter() - began
        return answer

    def milliseconds(self) -> dict[str, float]:
        """Return what each step took, and all together."""
        took = self._took | {"total": sum(self._took.values())}
        return {f"{step}_ms": round(seconds * 1000, 1) for step, seconds in took.items()}
