"""The topologies of the service: creates, reads, changes and deletes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import UnknownTopology
from acker_protocol.operations import EndOn

from acker_client._core import requests, responses, validate
from acker_client._core.topology import AUTOMATIC_WINDOW, DedupeWindow, topology_document
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.effects import Flow
    from acker_client._core.retry import RetrySession
    from acker_client.root import EndOnName
    from acker_client.tuple import Run, RunAsync


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A topology as the service has it; times in seconds.

    ``progress_timeout``, ``max_spout_pending`` are None, ``dedupe_window`` is 0 where there is none;
    ``dedupe_automatic``: it follows the message timeout. ``pending`` roots have not ended, ``unread`` completions are
    not released, ``counts`` are those since it was created. ``trace`` is the share of its roots that are traced,
    ``end_on`` what ends a root whose init does not say, ``grace`` the longest time that a root gets whose deadline
    passed in an outage.
    """

    name: str
    ackers: int
    message_timeout: float
    progress_timeout: float | None
    max_spout_pending: int | None
    dedupe_window: float
    retention: float
    idempotency_window: float
    pending: int
    unread: int
    counts: Mapping[str, int]
    root_details: bool = True
    trace: float = 0
    dedupe_automatic: bool = False
    end_on: EndOn = EndOn.FIRST_FAIL
    grace: float = 0


def create_topology(session: "RetrySession", name: str, document: dict[str, Any]) -> "Flow[Topology]":
    """Create or change a topology; a new one has an automatic dedupe window, unless the document has a window."""
    validate.name("the topology's name", name)
    if "dedupe_window_ms" not in document:
        try:
            yield from session.send(requests.read_topology(name))
        except UnknownTopology:
            document = document | AUTOMATIC_WINDOW
    return _read_topology((yield from session.send(requests.put_topology(name, document))))


def update_topology(session: "RetrySession", name: str, document: dict[str, Any]) -> "Flow[Topology]":
    """Change a topology that exists."""
    validate.name("the topology's name", name)
    yield from session.send(requests.read_topology(name))  # a PUT would create one that is misspelt
    return _read_topology((yield from session.send(requests.put_topology(name, document))))


def get_topology(session: "RetrySession", name: str) -> "Flow[Topology]":
    """Read a topology."""
    request = requests.read_topology(validate.name("the topology's name", name))
    return _read_topology((yield from session.send(request)))


def delete_topology(session: "RetrySession", name: str, *, force: bool, discard: bool) -> "Flow[None]":
    """Delete a topology."""
    validate.name("the topology's name", name)
    yield from session.send(requests.delete_topology(name, force=force, discard=discard))


class Topologies:
    """The topologies of the service, as ``acker.topologies``."""

    def __init__(self, session: "RetrySession", run: "Run") -> None:
        self._session = session
        self._run = run

    def create(
        self,
        name: str,
        *,
        ackers: int | None = None,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        max_spout_pending: int | None = None,
        dedupe_window: DedupeWindow | None = None,
        retention: float | None = None,
        root_details: bool | None = None,
        trace: float | None = None,
        end_on: "EndOnName | None" = None,
        grace: float | None = None,
    ) -> Topology:
        """Create a topology, or change the one of this name; needs the scope ``admin``. Times are in seconds.

        What is None keeps its value, and has its default in a new topology: 4 ackers, a message timeout of 30, a
        retention of 60, a dedupe window that is ``"automatic"`` (it equals the message timeout and follows it), the
        details of roots, roots that end at their first fail, nothing else. 0 is none for ``progress_timeout``,
        ``max_spout_pending``, ``dedupe_window``. Raises `AckersFixed` for another number of ackers.
        """
        document = topology_document(
            ackers=ackers,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            max_spout_pending=max_spout_pending,
            dedupe_window=dedupe_window,
            retention=retention,
            root_details=root_details,
            trace=trace,
            end_on=end_on,
            grace=grace,
        )
        return self._run(create_topology(self._session, name, document))

    def update(
        self,
        name: str,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        max_spout_pending: int | None = None,
        dedupe_window: DedupeWindow | None = None,
        retention: float | None = None,
        root_details: bool | None = None,
        trace: float | None = None,
        end_on: "EndOnName | None" = None,
        grace: float | None = None,
    ) -> Topology:
        """Change a topology that exists; needs the scope ``admin``. Raises `UnknownTopology`.

        The keywords mean what they mean to `create`: what is None keeps its value.
        """
        document = topology_document(
            ackers=None,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            max_spout_pending=max_spout_pending,
            dedupe_window=dedupe_window,
            retention=retention,
            root_details=root_details,
            trace=trace,
            end_on=end_on,
            grace=grace,
        )
        return self._run(update_topology(self._session, name, document))

    def get(self, name: str) -> Topology:
        """Read a topology. Raises `UnknownTopology`."""
        return self._run(get_topology(self._session, name))

    def delete(self, name: str, *, force: bool = False, discard: bool = False) -> None:
        """Delete a topology (scope ``admin``). Raises `TopologyBusy`, and `UnknownTopology` at a first attempt.

        A repeat that finds none, after a lost answer or a failure of the service, means that it is deleted.

        With ``force`` pending roots fail, and it is deleted when their completions are released; with ``discard`` too
        it is deleted at once, and they are lost.
        """
        self._run(delete_topology(self._session, name, force=force, discard=discard))


class AsyncTopologies:
    """The topologies of the service, as ``acker.topologies`` of an `AsyncAcker`."""

    def __init__(self, session: "RetrySession", run: "RunAsync") -> None:
        self._session = session
        self._run = run

    async def create(
        self,
        name: str,
        *,
        ackers: int | None = None,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        max_spout_pending: int | None = None,
        dedupe_window: DedupeWindow | None = None,
        retention: float | None = None,
        root_details: bool | None = None,
        trace: float | None = None,
        end_on: "EndOnName | None" = None,
        grace: float | None = None,
    ) -> Topology:
        """Create a topology, or change the one of this name; needs the scope ``admin``. Times are in seconds.

        What is None keeps its value, and has its default in a new topology; see `Topologies.create`.
        """
        document = topology_document(
            ackers=ackers,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            max_spout_pending=max_spout_pending,
            dedupe_window=dedupe_window,
            retention=retention,
            root_details=root_details,
            trace=trace,
            end_on=end_on,
            grace=grace,
        )
        return await self._run(create_topology(self._session, name, document))

    async def update(
        self,
        name: str,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        max_spout_pending: int | None = None,
        dedupe_window: DedupeWindow | None = None,
        retention: float | None = None,
        root_details: bool | None = None,
        trace: float | None = None,
        end_on: "EndOnName | None" = None,
        grace: float | None = None,
    ) -> Topology:
        """Change a topology that exists; what is None keeps its value. Raises `UnknownTopology`."""
        document = topology_document(
            ackers=None,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            max_spout_pending=max_spout_pending,
            dedupe_window=dedupe_window,
            retention=retention,
            root_details=root_details,
            trace=trace,
            end_on=end_on,
            grace=grace,
        )
        return await self._run(update_topology(self._session, name, document))

    async def get(self, name: str) -> Topology:
        """Read a topology. Raises `UnknownTopology`."""
        return await self._run(get_topology(self._session, name))

    async def delete(self, name: str, *, force: bool = False, discard: bool = False) -> None:
        """Delete a topology; ``force`` fails what is pending, ``discard`` too loses what is unread."""
        await self._run(delete_topology(self._session, name, force=force, discard=discard))


def _read_topology(response: responses.Response) -> Topology:
    found = responses.document(response)
    try:
        return Topology(
            name=found["topology"],
            ackers=found.get("ackers", 0),
            message_timeout=found["message_timeout_ms"] / 1000,
            progress_timeout=responses.seconds(found.get("progress_timeout_ms") or None),
            max_spout_pending=found.get("max_spout_pending"),
            dedupe_window=(found.get("dedupe_window_ms") or 0) / 1000,
            dedupe_automatic=found.get("dedupe_automatic", False),
            retention=(found.get("retention_ms") or 0) / 1000,
            idempotency_window=found["idempotency_window_ms"] / 1000,
            pending=found.get("pending", 0),
            unread=found.get("unread", 0),
            counts=found.get("counts", {}),
            root_details=found.get("root_details", True),
            trace=found.get("trace", 0),
            end_on=EndOn(found.get("end_on", EndOn.FIRST_FAIL)),
            grace=(found.get("grace_ms") or 0) / 1000,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"the answer holds no topology: {error!r}") from None
