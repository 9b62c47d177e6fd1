"""The JSON form of completions."""

from typing import Any

from acker_protocol.ids import completion_id, format_id
from acker_protocol.operations import CompletionRecord


def encode_completion(completion: CompletionRecord, *, incarnation: str) -> dict[str, Any]:
    """Write a completion as its spout task gets it; its id depends on the topology's incarnation.

    ``traceparent`` is left out where the init had none.
    """
    document: dict[str, Any] = {
        "id": completion_id(
            incarnation=incarnation,
            root_id=completion.root_id,
            started_ms=completion.started_ms,
            outcome=completion.outcome,
        ),
        "root_id": format_id(completion.root_id),
        "outcome": completion.outcome.value,
        "message_id": completion.message_id,
        "reason": completion.reason,
        "component": completion.component,
        "complete_latency_ms": completion.complete_latency_ms,
        "at_ms": completion.at_ms,
    }
    return document if completion.traceparent is None else document | {"traceparent": completion.traceparent}
