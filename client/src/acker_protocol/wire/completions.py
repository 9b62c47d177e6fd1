"""The JSON form of completions."""

from typing import Any

from acker_protocol.ids import completion_id, format_id
from acker_protocol.operations import CompletionRecord, Outcome


def encode_completion(completion: CompletionRecord, *, incarnation: str) -> dict[str, Any]:
    """Write a completion as its spout task gets it; its id depends on the topology's incarnation.

    ``traceparent`` is left out where the init had none, ``failures`` where the root ends at its first fail, ``dropped``
    where no edge was, and what says where a root hung of all but timeouts.
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
    if completion.traceparent is not None:
        document["traceparent"] = completion.traceparent
    if completion.failures is not None:
        document["failures"] = completion.failures
    if completion.dropped:
        document["dropped"] = completion.dropped
    # rule: a timeout is written with where its root hung
    if completion.outcome is Outcome.TIMED_OUT:
        document |= {
            "last_component": completion.last_component,
            "last_ack_at_ms": completion.last_ack_ms,
            "outstanding": completion.outstanding,
        }
    return document
