"""Checks that a topology fits Spark, and creates the one that does not exist."""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_client.lowlevel import to_milliseconds
from acker_protocol.errors import Forbidden, UnknownTopology

from acker_spark.errors import IncompatibleTopology, PendingLimit
from acker_spark.options import HOUR_S

if TYPE_CHECKING:
    from acker_client.lowlevel import Session

    from acker_spark.options import SparkAckerOptions

log = logging.getLogger("acker_spark")
DEFAULT_RETENTION_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The configuration of a topology; times in milliseconds."""

    name: str
    message_timeout_ms: int
    dedupe_window_ms: int
    retention_ms: int
    max_spout_pending: int | None
    dedupe_automatic: bool = False

    def check_compatible(self, options: "SparkAckerOptions") -> None:
        """Raise `IncompatibleTopology` where a batch that runs again could count twice."""
        timeout_ms = options.message_timeout_ms or self.message_timeout_ms
        window_ms, retention_ms = self.dedupe_window_ms, self.retention_ms
        if window_ms <= 0:
            fault = "does not dedupe: a batch that runs again would undo its own acks"
        elif self.dedupe_automatic:
            fault = "has an automatic dedupe window: it would shrink with the message timeout, below a driver's absence"
        elif window_ms < timeout_ms:
            fault = f"dedupes for {window_ms} ms, less than the message timeout of {timeout_ms} ms"
        elif retention_ms < window_ms:
            fault = (
                f"remembers finished roots for {retention_ms} ms and edges for {window_ms} ms: "
                "an ack that is repeated in between would find no root"
            )
        else:
            return
        raise IncompatibleTopology(
            f"topology {self.name!r} {fault}. Change its dedupe_window_ms and retention_ms, or use the name of a "
            "topology that does not exist: the connector creates it as Spark needs it"
        )

    def warn_settings_differ(self, options: "SparkAckerOptions") -> None:
        """Log the settings in which a topology that existed before differs from the options."""
        for name, wanted, default, found_ms in (
            ("dedupe_window", options.dedupe_window, HOUR_S, self.dedupe_window_ms),
            ("retention", options.retention, HOUR_S, self.retention_ms),
        ):
            if wanted != default and to_milliseconds(wanted) != found_ms:
                log.warning(
                    "topology %r existed before: its %s is %g s, not %g s", self.name, name, found_ms / 1000, wanted
                )

    def check_pending_limit(self, roots: int) -> None:
        """Raise `PendingLimit` for a batch with more roots than may be pending at once."""
        if self.max_spout_pending is not None and roots > self.max_spout_pending:
            raise PendingLimit(
                f"the batch has {roots} roots, and a spout task of topology {self.name!r} may have "
                f"{self.max_spout_pending} pending (max_spout_pending): let the source give smaller batches "
                "(maxFilesPerTrigger, maxOffsetsPerTrigger), or raise the limit",
                retryable=False,
            )


def read_or_create(session: "Session", options: "SparkAckerOptions") -> Topology:
    """Read the topology, and create it if it does not exist. Raises `IncompatibleTopology`."""
    try:
        document = session.read_topology()
    except UnknownTopology:
        document = _create(session, options)
    found = parse(session.topology, document)
    found.check_compatible(options)
    found.warn_settings_differ(options)
    return found


def parse(name: str, document: dict[str, Any]) -> Topology:
    """Read the answer of the service."""
    return Topology(
        name=name,
        message_timeout_ms=document["message_timeout_ms"],
        dedupe_window_ms=document.get("dedupe_window_ms") or 0,
        retention_ms=document.get("retention_ms") or DEFAULT_RETENTION_MS,
        max_spout_pending=document.get("max_spout_pending"),
        dedupe_automatic=document.get("dedupe_automatic", False),
    )


def _create(session: "Session", options: "SparkAckerOptions") -> dict[str, Any]:
    settings = {
        "message_timeout_ms": to_milliseconds(options.created_message_timeout),
        "dedupe_window_ms": to_milliseconds(options.dedupe_window),
        "retention_ms": to_milliseconds(options.retention),
    }
    try:
        return session.create_topology(settings)
    except Forbidden as error:
        raise IncompatibleTopology(
            f"topology {session.topology!r} does not exist, and this key may not create it (scope admin): "
            f"create it with {json.dumps(settings)}"
        ) from error
