"""The configuration of a topology: its fields, their limits, and how a change is merged."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from acker_protocol.errors import AckersFixed, InvalidRequest
from acker_protocol.operations import EndOn
from acker_protocol.states import TopologyRules
from acker_protocol.wire import fields as checks
from acker_protocol.wire.operations import check

MAX_SPOUT_PENDING = range(1, 2**31)

_timeout = checks.integer(checks.TIMEOUT_MS)
_CHECKS = {
    "ackers": checks.integer(checks.ACKERS),
    "message_timeout_ms": _timeout,
    "progress_timeout_ms": checks.allow_zero(_timeout),
    "max_spout_pending": checks.integer(MAX_SPOUT_PENDING),
    "dedupe_window_ms": checks.allow_zero(_timeout),
    "retention_ms": checks.integer(checks.RETENTION_MS),
    "root_details": checks.boolean,
    "trace": checks.share,
    "end_on": checks.end_on,
    "grace_ms": checks.integer(checks.GRACE_MS),
}


ROOTS_PER_BUCKET = 32
"""Roots in a small hash, pending and finished ones together, that take the least memory."""

MAX_FAILURES = 10_000
"""Failed and timed-out roots that a topology lists, over all of its shards."""

BUCKETS = 16_384
"""Small hashes of a shard by default: enough for about 520,000 roots a shard at the lowest memory a root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyConfig:
    """How a topology behaves; durations in milliseconds. ``ackers`` and ``buckets`` are fixed when it is created.

    ``buckets`` is the number of small hashes over which a shard spreads its roots; about 32 roots in each, pending
    and finished ones together, take the least memory. ``root_details``: whether a root keeps what its last ack says of
    it. ``end_on`` is what ends a root whose init does not say it. ``trace`` is the share of the roots that are traced,
    from 0 to 1. ``dedupe_automatic``: the dedupe window equals the message timeout and follows it. ``grace_ms`` is the
    longest time that a root gets whose deadline passed while nobody ticked.
    """

    ackers: int = 4
    message_timeout_ms: int = 30_000
    progress_timeout_ms: int | None = None
    max_spout_pending: int | None = None
    dedupe_window_ms: int = 0
    dedupe_automatic: bool = False
    retention_ms: int = 60_000
    root_details: bool = True
    trace: float = 0
    end_on: EndOn = EndOn.FIRST_FAIL
    grace_ms: int = 0
    buckets: int = BUCKETS

    @property
    def shards(self) -> int:
        """The number of shards: one an acker, and one that remembers untracked roots if there are no ackers."""
        return max(1, self.ackers)

    @property
    def max_failures(self) -> int:
        """The number of failed and timed-out roots that each shard lists."""
        return MAX_FAILURES // self.shards

    @property
    def longest_timeout_ms(self) -> int:
        """The longest message timeout that an init may have, 0 for no limit: an automatic window refuses none."""
        return 0 if self.dedupe_automatic else self.dedupe_window_ms

    @property
    def rules(self) -> TopologyRules:
        """The rules that the state machine needs."""
        return TopologyRules(
            message_timeout_ms=self.message_timeout_ms,
            progress_timeout_ms=self.progress_timeout_ms or 0,
            dedupe_window_ms=self.dedupe_window_ms,
            retention_ms=self.retention_ms,
            tracked=self.ackers > 0,
            root_details=self.root_details,
            end_on=self.end_on,
            grace_ms=self.grace_ms,
        )

    def public(self) -> dict[str, float | str | None]:
        """Write what callers see."""
        return {name: value for name, value in asdict(self).items() if name != "buckets"}


def from_stored(document: dict[str, Any]) -> TopologyConfig:
    """Read a configuration as Redis keeps it; fields of a later release are ignored."""
    known = {name: value for name, value in document.items() if name in TopologyConfig.__dataclass_fields__}
    return TopologyConfig(**known | {"end_on": EndOn(known.get("end_on", EndOn.FIRST_FAIL))})


def merge(present: TopologyConfig | None, document: dict[str, Any], *, buckets: int) -> TopologyConfig:
    """Return the configuration after a PUT: a field that is left out stays, null is the default.

    A null dedupe window is automatic; it is 0 where a new topology's document leaves it out.
    ``present`` is None for a topology that is created, with so many ``buckets`` per shard. Raises `InvalidRequest`,
    `AckersFixed`.
    """
    values = check(document, _CHECKS)
    base = present or TopologyConfig(buckets=buckets)
    defaults = {f.name: f.default for f in fields(TopologyConfig)}
    reset = {name: defaults[name] for name, value in document.items() if value is None}
    merged = _with_window(TopologyConfig(**(asdict(base) | reset | values)), document)
    if present is not None and merged.ackers != present.ackers:
        raise AckersFixed(f"the topology was made with {present.ackers} ackers; make a new one for {merged.ackers}")
    if merged.dedupe_window_ms and merged.dedupe_window_ms < merged.message_timeout_ms:
        raise InvalidRequest("dedupe_window_ms must be 0 or at least message_timeout_ms")
    return merged


def _with_window(config: TopologyConfig, document: dict[str, Any]) -> TopologyConfig:
    """Let an automatic dedupe window equal the message timeout; null in the document makes it automatic."""
    is_automatic = config.dedupe_automatic
    if "dedupe_window_ms" in document:
        is_automatic = document["dedupe_window_ms"] is None
    window_ms = config.message_timeout_ms if is_automatic else config.dedupe_window_ms
    return replace(config, dedupe_window_ms=window_ms, dedupe_automatic=is_automatic)
