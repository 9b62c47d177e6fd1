"""The failures of a topology: its roots that failed or timed out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import Outcome

from acker_client._core import requests, responses, validate
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.effects import Flow
    from acker_client._core.retry import RetrySession
    from acker_client.tuple import Run, RunAsync


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A root that failed or timed out, ``at`` in Unix seconds; the service lists it for a day.

    ``component`` is the one that failed the root; of a timeout the one that acked last, if that is known.
    ``spout_task`` is None if it was deleted. ``failures`` is the number of edges that failed, of a root that ends when
    all have ended; None of any other.
    """

    root_id: str
    message_id: str | None
    spout_task: str | None
    outcome: Outcome
    reason: str | None
    component: str | None
    at: float
    failures: int | None = None


def list_failures(session: "RetrySession", limit: int, **chosen: Any) -> "Flow[tuple[Failure, ...]]":
    """Read the newest failures that match, page by page; a page may be short."""
    validate.positive("limit", limit)
    found: list[Failure] = []
    after: str | None = None
    while True:
        page_size = min(requests.PAGE, limit - len(found))
        request = requests.list_failures(session.topology, after=after, limit=page_size, **chosen)
        page, after = _read_page((yield from session.send(request)))
        found += page
        if after is None or len(found) >= limit:
            return tuple(found)


class Failures:
    """The failures of the client's topology, as ``acker.failures``."""

    def __init__(self, session: "RetrySession", run: "Run") -> None:
        self._session = session
        self._run = run

    def list(
        self,
        *,
        outcome: Outcome | None = None,
        spout_task: str | None = None,
        component: str | None = None,
        reason: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> tuple[Failure, ...]:
        """List the roots that failed or timed out, at most ``limit``, the newest first; None: any.

        ``reason`` is a part of the reason; ``text`` one of the message id, the reason or the component. ``since`` and
        ``until`` are Unix seconds: roots that ended then or later, and then or earlier.
        """
        chosen = _chosen(outcome, spout_task, component) | _parts(reason, text) | validate.interval_ms(since, until)
        return self._run(list_failures(self._session, limit, **chosen))


class AsyncFailures:
    """The failures of the client's topology, as ``acker.failures`` of an `AsyncAcker`."""

    def __init__(self, session: "RetrySession", run: "RunAsync") -> None:
        self._session = session
        self._run = run

    async def list(
        self,
        *,
        outcome: Outcome | None = None,
        spout_task: str | None = None,
        component: str | None = None,
        reason: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> tuple[Failure, ...]:
        """List the roots that failed or timed out, at most ``limit``, the newest first; None: any.

        ``reason`` is a part of the reason; ``text`` one of the message id, the reason or the component. ``since`` and
        ``until`` are Unix seconds: roots that ended then or later, and then or earlier.
        """
        chosen = _chosen(outcome, spout_task, component) | _parts(reason, text) | validate.interval_ms(since, until)
        return await self._run(list_failures(self._session, limit, **chosen))


def _chosen(outcome: Outcome | None, spout_task: str | None, component: str | None) -> dict[str, str | None]:
    """Check what is asked for. Raises `UsageError`."""
    if outcome is not None:
        validate.one_of("outcome", outcome, Outcome.FAILED.value, Outcome.TIMED_OUT.value)
    for what, value in (("spout_task", spout_task), ("component", component)):
        if value is not None:
            validate.name(what, value)
    return {"outcome": outcome, "spout_task": spout_task, "component": component}


def _parts(reason: str | None, text: str | None) -> dict[str, str | None]:
    """Check the parts of texts that are asked for. Raises `UsageError`."""
    validate.text("reason", reason)
    validate.text("text", text)
    return {"reason": reason, "text": text}


def _read_page(response: responses.Response) -> tuple[list[Failure], str | None]:
    found = responses.document(response)
    try:
        return [_failure(one) for one in found["failures"]], found["cursor"]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"the answer holds no failures: {error!r}") from None


def _failure(found: dict[str, Any]) -> Failure:
    return Failure(
        root_id=found["root_id"],
        message_id=found["message_id"],
        spout_task=found["spout_task"],
        outcome=Outcome(found["outcome"]),
        reason=found["reason"],
        component=found["component"],
        at=found["at_ms"] / 1000,
        failures=found.get("failures"),
    )
