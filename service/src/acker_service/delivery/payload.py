"""Knows what is posted to a webhook: a batch of completions of one spout task."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from acker_protocol.signature import COMPLETION_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """One post. ``message`` is the ``webhook-id``, ``ids`` are those of the completions in ``body``, in its order."""

    message_id: str
    ids: tuple[str, ...]
    body: bytes = field(repr=False)


def make_message(*, topology: str, spout_task: str, completions: Sequence[Mapping[str, Any]]) -> WebhookMessage:
    """Make the post of some completions (at least one), each in the JSON form of the contract.

    The same completions in the same order give the same bytes, whenever and by whomever they are posted: the timestamp
    in the body is that of the youngest, as Standard Webhooks wants it; the time of the try goes into a header.
    """
    ids = tuple(str(completion["id"]) for completion in completions)
    document = {
        "type": COMPLETION_BATCH,
        "timestamp": _iso(max(completion["at_ms"] for completion in completions)),
        "data": {"topology": topology, "spout_task": spout_task, "completions": completions},
    }
    return WebhookMessage(message_id=message_id(ids), ids=ids, body=msgspec.json.encode(document))


def message_id(ids: Sequence[str]) -> str:
    """Name a post after the set of completions in it, whatever their order: another set, another id."""
    text = " ".join(sorted(set(ids)))
    return "msg_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _iso(unix_ms: int) -> str:
    seconds, ms = divmod(unix_ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
