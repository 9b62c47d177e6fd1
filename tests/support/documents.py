"""Looks into completions that are still packed."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from acker_protocol.operations import CompletionRecord
from acker_protocol.wire.completions import encode_completion
from acker_service.delivery.retry import MailboxEntry
from acker_service.mailboxes.reading import ReadResult
from acker_service.redis.completion_codec import CompletionDocuments, decode_completions


def documents(read: ReadResult) -> list[dict[str, Any]]:
    """Return the completions of a read as callers get them."""
    return [json.loads(document) for some in read.documents() for document in some]


def roots(read: ReadResult) -> list[int]:
    """Return the root of each completion of a read."""
    return [int(document["root_id"], 16) for document in documents(read)]


def records(read: ReadResult, spout_task: str) -> list[CompletionRecord]:
    """Return the completions of a read as they are stored."""
    packed = b"".join(entry.completions.data for run in read.runs.values() for entry in run._entries)
    return [*decode_completions(packed, spout_task)]


def written(*completions: CompletionRecord, incarnation: str = "1") -> CompletionDocuments:
    """Write completions as JSON."""
    found = [encode_completion(done, incarnation=incarnation) for done in completions]
    return CompletionDocuments(
        documents=[msgspec.json.encode(document).decode() for document in found],
        ids=[document["id"] for document in found],
        ended_ms=[done.at_ms for done in completions],
    )


def delivered(entries: Sequence[MailboxEntry]) -> list[dict[str, Any]]:
    """Return the completions of claimed entries as receivers get them."""
    return [json.loads(document) for entry in entries for document in entry.write().documents]
