"""Reads what the settings, tasks and messages of Celery say."""

from datetime import UTC, datetime
from typing import Any

from acker_client.integrations._task_runs import NAME, Call

REQUEUED = (
    "a task that reaches its hard time limit is requeued at once, again and again, and each replay of its tree adds "
    "one; leave the setting out: then the tree fails"
)
VISIBILITY_TIMEOUTS = (
    ("visibility_timeout", "visibility_timeout"),  # Redis
    ("visibility_timeout", "default_visibility_timeout"),  # SQS, SLMQ, PGMQ
    ("peek_lock_seconds", "default_peek_lock_seconds"),  # Azure Service Bus
    ("ack_deadline_seconds", "default_ack_deadline_seconds"),  # Google Pub/Sub
)
"""Options of kombu's transports, and their defaults: seconds after which what was not acked is delivered again."""

Json = Any


def visibility_timeout_s(app: Any) -> float:
    """Return the seconds until an application's broker delivers again; 0 for one that waits for a connection's end.

    They are configured, or the default of kombu's transport, which nothing connects for.
    """
    connection = app.connection_for_read()
    channel = getattr(connection.get_transport_cls(), "Channel", None)
    for option, default in VISIBILITY_TIMEOUTS:
        seconds = getattr(channel, default, None)
        if isinstance(seconds, int | float):
            configured = connection.transport_options.get(option)
            return float(seconds if configured in (None, "") else configured)
    return 0.0


def acks_on_timeout(task: Any) -> bool:
    """Whether a task that reaches its hard time limit is done for the queue; Celery before 5.7 has one setting."""
    acks = getattr(task, "acks_on_timeout", None)
    return bool(task.acks_on_failure_or_timeout if acks is None else acks)


def call_of(name: str, args: Any, kwargs: Any, options: dict[str, Any], *, key: str | None) -> Call:
    """Describe a call of ``send_task``, with its delay from ``countdown`` or ``eta``."""
    delay, eta = options.get("countdown") or 0.0, options.get("eta")
    if isinstance(eta, str):
        eta = datetime.fromisoformat(eta)
    if isinstance(eta, datetime):
        delay = (eta - datetime.now(UTC if eta.tzinfo else None)).total_seconds()
    return Call(task=name, task_id=options["task_id"], args=args or (), kwargs=kwargs or {}, delay=delay, key=key)


def ids_in(value: Json, *, anchored: bool) -> list[str]:
    """List the task ids in signatures; ``anchored``: of those with anchors."""
    if isinstance(value, list | tuple):
        return [task_id for each in value for task_id in ids_in(each, anchored=anchored)]
    if not isinstance(value, dict):
        return []
    found = [task_id for name, each in value.items() if name != "args" for task_id in ids_in(each, anchored=anchored)]
    if "task_id" in value and (not anchored or NAME in (value.get("headers") or {})):
        found.append(value["task_id"])
    return found
