"""Builds the message that a webhook receives, in the format of Standard Webhooks.

A message holds a batch of completions of one spout task.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from acker_protocol.signature import COMPLETION_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """The message of one request."""

    message_id: str
    """The ``webhook-id``."""
    ids: tuple[str, ...]
    """The ids of the completions in the body, in its order."""
    body: bytes = field(repr=False)


def make_message(*, topology: str, spout_task: str, completions: Sequence[Mapping[str, Any]]) -> WebhookMessage:
    """Build the message of one or more completions, each in the JSON form of the contract.

    Deterministic: the same completions in the same order give the same bytes in every process, and for every attempt.
    The timestamp in the body is that of the newest completion; the time of the attempt goes into a header.
    """
    ids = tuple(str(completion["id"]) for completion in completions)
    document = {
        "type": COMPLETION_BATCH,
        "timestamp": _iso(max(completion["at_ms"] for completion in completions)),
        "data": {"topology": topology, "spout_task": spout_task, "completions": completions},
    }
    return WebhookMessage(message_id=message_id(ids), ids=ids, body=msgspec.json.encode(document))


def message_id(ids: Sequence[str]) -> str:
    """Derive the message id from the set of completion ids, whatever their order."""
    text = " ".join(sorted(set(ids)))
    return "msg_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _iso(unix_ms: int) -> str:
    seconds, ms = divmod(unix_ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
