"""Builds the message that a webhook receives, in the format of Standard Webhooks.

A message holds a batch of completions of one spout task.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from acker_protocol.signature import COMPLETION_BATCH, COMPLETION_TEST

from acker_service.redis.completion_codec import UNICODE, CompletionDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """The message of one request."""

    message_id: str
    """The ``webhook-id``."""
    ids: tuple[str, ...]
    """The ids of the completions in the body, in its order."""
    body: bytes = field(repr=False)


def make_message(*, topology: str, spout_task: str, completions: CompletionDocuments) -> WebhookMessage:
    """Build the message of one or more completions.

    Deterministic: the same completions in the same order give the same bytes in every process, and for every attempt.
    The timestamp in the body is that of the newest completion; the time of the attempt goes into a header.
    """
    body = (
        f'{{"type":"{COMPLETION_BATCH}","timestamp":"{_iso(max(completions.ended_ms))}"'
        f',"data":{{"topology":{UNICODE(topology)},"spout_task":{UNICODE(spout_task)}'
        f',"completions":[{",".join(completions.documents)}]}}}}'
    )
    ids = tuple(completions.ids)
    return WebhookMessage(message_id=message_id(ids), ids=ids, body=body.encode())


def make_test_message(*, topology: str, spout_task: str, now_ms: int, message_id: str) -> WebhookMessage:
    """Build a message without completions, which tries whether a receiver answers."""
    body = (
        f'{{"type":"{COMPLETION_TEST}","timestamp":"{_iso(now_ms)}"'
        f',"data":{{"topology":{UNICODE(topology)},"spout_task":{UNICODE(spout_task)},"completions":[]}}}}'
    )
    return WebhookMessage(message_id=message_id, ids=(), body=body.encode())


def message_id(ids: Sequence[str]) -> str:
    """Derive the message id from the set of completion ids, whatever their order."""
    text = " ".join(sorted(set(ids)))
    return "msg_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _iso(unix_ms: int) -> str:
    seconds, ms = divmod(unix_ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
