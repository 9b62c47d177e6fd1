"""The paths and header names of the contract, version 1. Callers validate names first, so paths need no escaping."""

IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_REPLAYED = "Idempotency-Replayed"
ANCHORS = "Acker-Anchors"
ANCHORS_SIGNATURE = "Acker-Anchors-Signature"
REQUEST_ID = "X-Request-Id"


def topologies() -> str:
    """All topologies."""
    return "/v1/topologies"


def topology(name: str) -> str:
    """One topology."""
    return f"/v1/topologies/{name}"


def operation(name: str, verb: str) -> str:
    """A single operation (init, ack, fail, reset-timeout), or ``batch``."""
    return f"{topology(name)}/{verb}"


def roots(name: str) -> str:
    """The pending roots of a topology."""
    return f"{topology(name)}/roots"


def root(name: str, root_id: str) -> str:
    """One root."""
    return f"{roots(name)}/{root_id}"


def root_states(name: str) -> str:
    """The path that reads the states of many roots."""
    return f"{roots(name)}/states"


def force_fail(name: str, root_id: str) -> str:
    """The path by which an operator fails a root."""
    return f"{root(name, root_id)}/fail"


def spouts(name: str) -> str:
    """All spout tasks of a topology."""
    return f"{topology(name)}/spouts"


def spout(name: str, spout_task: str) -> str:
    """One spout task."""
    return f"{spouts(name)}/{spout_task}"


def completions(name: str, spout_task: str) -> str:
    """The completions of a spout task."""
    return f"{spout(name, spout_task)}/completions"


def release(name: str, spout_task: str) -> str:
    """The path that releases completions up to a cursor."""
    return f"{completions(name, spout_task)}/release"


def rotate(name: str, spout_task: str) -> str:
    """The path that rotates the secret of a webhook."""
    return f"{spout(name, spout_task)}/secret/rotate"


def resume(name: str, spout_task: str) -> str:
    """The path that resumes a callback that is paused or off."""
    return f"{spout(name, spout_task)}/resume"


def pause(name: str, spout_task: str) -> str:
    """The path that pauses a callback."""
    return f"{spout(name, spout_task)}/pause"


def webhook_test(name: str, spout_task: str) -> str:
    """The path that posts a test message to a webhook."""
    return f"{spout(name, spout_task)}/test"


def dead_letters(name: str, spout_task: str) -> str:
    """The dead letters of a spout task."""
    return f"{spout(name, spout_task)}/dead-letters"


def replay(name: str, spout_task: str) -> str:
    """The path that puts dead letters back into the mailbox."""
    return f"{dead_letters(name, spout_task)}/replay"


def channel(name: str, spout_task: str) -> str:
    """The channel on which Redis publishes the completions of a spout task; names hold no colon."""
    return f"acker:{name}:{spout_task}"
