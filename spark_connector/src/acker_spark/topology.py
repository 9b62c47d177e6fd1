"""Knows what a topology must be for Spark, and makes the one that is not there."""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_client.lowlevel import Request, Response, requests, responses
from acker_protocol import routes
from acker_protocol.errors import Forbidden, UnknownTopology

from acker_spark.errors import NoRoom, UnfitTopology
from acker_spark.options import HOUR_S

if TYPE_CHECKING:
    from acker_client.lowlevel import Flow, RetrySession

    from acker_spark.options import Options

log = logging.getLogger("acker_spark")
DEFAULT_RETENTION_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What a topology says of itself; times in milliseconds."""

    name: str
    message_timeout_ms: int
    dedupe_window_ms: int
    retention_ms: int
    max_spout_pending: int | None

    def refuse_unfit(self, options: "Options") -> None:
        """Raise `UnfitTopology` where a batch that is run again could count twice."""
        timeout_ms = options.message_timeout_ms or self.message_timeout_ms
        for fits, fault in (
            (self.dedupe_window_ms > 0, "does not dedupe: a batch that is run again would undo its own acks"),
            (
                self.dedupe_window_ms >= timeout_ms,
                f"dedupes for {self.dedupe_window_ms} ms, less than the message timeout of {timeout_ms} ms",
            ),
            (
                self.retention_ms >= self.dedupe_window_ms,
                f"remembers finished roots for {self.retention_ms} ms and edges for {self.dedupe_window_ms} ms: "
                "an ack that is repeated in between would find no root",
            ),
        ):
            if not fits:
                raise UnfitTopology(
                    f"topology {self.name!r} {fault}. Change it (dedupe_window_ms, retention_ms), or give the name of "
                    "one that is not there: it is made as Spark needs it"
                )

    def warn_of_others(self, options: "Options") -> None:
        """Say which times that were asked for it does not have: it was there before."""
        for name, wanted_s, unsaid_s, found_ms in (
            ("dedupe_window", options.dedupe_window, HOUR_S, self.dedupe_window_ms),
            ("retention", options.retention, HOUR_S, self.retention_ms),
        ):
            if wanted_s != unsaid_s and round(wanted_s * 1000) != found_ms:
                log.warning(
                    "topology %r was there before: its %s is %g s, not %g s", self.name, name, found_ms / 1000, wanted_s
                )

    def refuse_crowd(self, roots: int) -> None:
        """Raise `NoRoom` for a batch that could never begin."""
        if self.max_spout_pending is not None and roots > self.max_spout_pending:
            raise NoRoom(
                f"the batch has {roots} roots, and a spout task of topology {self.name!r} may have "
                f"{self.max_spout_pending} pending (max_spout_pending): let the source give smaller batches "
                "(maxFilesPerTrigger, maxOffsetsPerTrigger), or raise the cap"
            )


def learn(exchange: "RetrySession", options: "Options") -> "Flow[Topology]":
    """Ask for the topology, and make it if it is not there. Raises `UnfitTopology`."""
    try:
        reply = yield from exchange.send(requests.read_topology(exchange.topology))
    except UnknownTopology:
        reply = yield from _made(exchange, options)
    found = read(exchange.topology, responses.document(reply))
    found.refuse_unfit(options)
    found.warn_of_others(options)
    return found


def read(name: str, found: dict[str, Any]) -> Topology:
    """Read the answer of the service."""
    return Topology(
        name=name,
        message_timeout_ms=found["message_timeout_ms"],
        dedupe_window_ms=found.get("dedupe_window_ms") or 0,
        retention_ms=found.get("retention_ms") or DEFAULT_RETENTION_MS,
        max_spout_pending=found.get("max_spout_pending"),
    )


def _made(exchange: "RetrySession", options: "Options") -> "Flow[Response]":
    wanted = {
        "message_timeout_ms": round(options.made_timeout * 1000),
        "dedupe_window_ms": round(options.dedupe_window * 1000),
        "retention_ms": round(options.retention * 1000),
    }
    path = routes.topology(exchange.topology)
    try:
        return (yield from exchange.send(Request(method="PUT", path=path, body=json.dumps(wanted).encode())))
    except Forbidden as fault:
        raise UnfitTopology(
            f"there is no topology {exchange.topology!r}, and this key may not make one (scope admin): "
            f"make it with {json.dumps(wanted)}"
        ) from fault
