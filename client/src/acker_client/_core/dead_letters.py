"""Lists the dead letters of a spout task, and replays or discards those that are chosen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from acker_client._core import requests, responses, validate
from acker_client.completions import DeadLetter, read_dead_letters
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.effects import Flow
    from acker_client._core.retry import RetrySession


def chosen_dead_letters(error: str | None, since: float | None, until: float | None) -> dict[str, Any]:
    """Write which dead letters are meant. Raises `UsageError`."""
    validate.text("error", error)
    return {"error": error} | validate.interval_ms(since, until)


def list_dead_letters(
    session: "RetrySession", name: str, limit: int, chosen: Mapping[str, Any]
) -> "Flow[tuple[DeadLetter, ...]]":
    """Read dead letters page by page; a page that filters may be empty while there are more."""
    validate.name("the spout task's name", name)
    validate.positive("limit", limit)
    found: list[DeadLetter] = []
    after: str | None = None
    while True:
        page_size = min(requests.PAGE, limit - len(found))
        request = requests.list_dead_letters(session.topology, name, after=after, limit=page_size, **chosen)
        page, after = read_dead_letters((yield from session.send(request)))
        found += page
        if after is None or len(found) >= limit:
            return tuple(found)


def act_on_dead_letters(
    session: "RetrySession", name: str, act: Literal["replay", "discard"], chosen: Mapping[str, Any]
) -> "Flow[int]":
    """Replay or discard dead letters."""
    given = {key: value for key, value in chosen.items() if value is not None}
    request = requests.act_on_dead_letters(session.topology, validate.name("the spout task's name", name), act, given)
    found = responses.document((yield from session.send(request)))
    try:
        count: int = found[f"{act}ed"]
    except KeyError as error:
        raise InvalidResponse(f"the answer holds no count: {error!r}") from None
    return count
