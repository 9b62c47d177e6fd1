"""An acker in memory that answers httpx as the contract says, with failures that a test injects."""

from collections import deque
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Unpack

from acker_protocol import errors, routes
from acker_protocol.operations import REFUSED, EndOn, Operation, OperationState
from acker_protocol.states import State, TopologyRules
from acker_protocol.wire.operations import VERBS, decode_batch, decode_json, decode_operation, encode_operation
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed

from acker_client import _http_library
from acker_client._core.validate import to_milliseconds
from acker_client._http_library import httpx, library_of
from acker_client.asyncio.client import AsyncAcker
from acker_client.config import ClientOptions
from acker_client.sync.client import Acker
from acker_client.testing._memory_store import MemoryStore
from acker_client.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from acker_client._core.topology import DedupeWindow
    from acker_client.root import EndOnName

URL = "http://acker.test"
MAX_OPS = 10_000

Document = dict[str, Any]


class lost_reply:  # noqa: N801 - reads as a verb: faults.append(lost_reply(ReadTimeout("lost")))
    """An error raised after the request was applied."""

    def __init__(self, error: httpx.TransportError) -> None:
        self.error = error


class MemoryTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Leads to an acker in memory, from clients of httpx and of httpx2, of threads and of tasks."""

    def __init__(self, handle: "Callable[[Any], Any]") -> None:
        self._handle = handle

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer with a response of the library that the request is of."""
        request.read()
        return self._handle(request)  # type: ignore[no-any-return]  # of either library

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As `handle_request`."""
        await request.aread()
        return self._handle(request)  # type: ignore[no-any-return]  # of either library


class MemoryAcker:
    """An acker with one topology on the state machine of ``acker_protocol.tree``, in memory. ::

        memory = MemoryAcker()
        with memory.acker() as acker:
            ...  # the program under test
            acker.flush()
        memory.clock.advance(31)  # roots that are not done time out
        assert memory.completions("orders") == ["42"]  # message ids of the completions that are not released

    Time passes only by ``clock``; a long poll that finds nothing lets its wait pass at once. The topology has
    ``message_timeout``, ``progress_timeout``, ``dedupe_window`` and ``retention`` (seconds, 0 for none; an automatic
    window equals the message timeout) and ``max_spout_pending``; ``max_early`` bounds the roots without their init.
    ``end_on`` is what ends a root whose init does not say.
    ``requests`` lists the requests that came. ``faults`` hit the next requests, one each, None letting one through: an
    error of httpx or httpx2 is raised before anything is applied, or afterwards if wrapped in `lost_reply`; a
    `ServiceError` or a response is the answer. ``refusals`` are the states that answer the next inits.
    ``store.is_full`` True refuses with ``store_full`` whatever would begin a root, and remembers no further acked edges
    of pending ones. ``exists`` False deletes the topology.
    """

    def __init__(
        self,
        topology: str = "default",
        *,
        clock: Clock | None = None,
        message_timeout: float = 30.0,
        progress_timeout: float = 0.0,
        dedupe_window: "DedupeWindow" = "automatic",
        retention: float = 60.0,
        max_spout_pending: int | None = None,
        max_early: int | None = None,
        end_on: "EndOnName" = "first_fail",
    ) -> None:
        self.topology = topology
        self.clock = clock or Clock()
        self.exists = True
        self._shown: Document = {"root_details": True, "trace": 0}
        self.idempotency_window_ms: Any = 600_000
        self.requests: list[httpx.Request] = []
        self.faults: deque[Any] = deque()
        self._dedupe_automatic = dedupe_window == "automatic"
        rules = TopologyRules(
            message_timeout_ms=to_milliseconds(message_timeout),
            progress_timeout_ms=to_milliseconds(progress_timeout),
            dedupe_window_ms=to_milliseconds(message_timeout if dedupe_window == "automatic" else dedupe_window),
            retention_ms=to_milliseconds(retention),
            end_on=EndOn(end_on),
        )
        self.store = MemoryStore(self.clock, rules=rules, max_spout_pending=max_spout_pending, max_early=max_early)
        self.refusals: deque[OperationState] = self.store.refusals
        self._lock = Lock()

    def transport(self) -> MemoryTransport:
        """Return the transport that leads here, for sync and async clients."""
        return MemoryTransport(self._handle)

    def acker(self, **options: Unpack[ClientOptions]) -> Acker:
        """Make a client of this acker, on its clock; call its ``flush()`` before you look, or set ``linger=0``."""
        own: ClientOptions = {"transport": self.transport(), "clock": self.clock}
        return Acker(URL, self.topology, **(own | options))

    def async_acker(self, **options: Unpack[ClientOptions]) -> AsyncAcker:
        """Make an async client of this acker, on its clock; see `acker`."""
        own: ClientOptions = {"transport": self.transport(), "clock": self.clock}
        return AsyncAcker(URL, self.topology, **(own | options))

    def writes(self, verb: str = "") -> list[httpx.Request]:
        """Return the requests with operations, of one verb (or ``batch``) or all."""
        verbs = {verb} if verb else {*VERBS, "batch"}
        return [request for request in self.requests if request.url.path.rpartition("/")[2] in verbs]

    def bodies(self, verb: str) -> list[Document]:
        """Return the bodies of these requests; a packed batch in its JSON form."""
        return [self._body(request) for request in self.writes(verb)]

    def keys(self, verb: str) -> list[str]:
        """Return the idempotency keys of these requests."""
        return [request.headers[routes.IDEMPOTENCY_KEY] for request in self.writes(verb)]

    @property
    def applied(self) -> "Sequence[Operation]":
        """The operations that were applied, in order."""
        return self.store.applied

    @property
    def roots(self) -> "Mapping[int, State]":
        """The state of every root, by its id."""
        self.store.tick()
        return self.store.roots

    def completions(self, spout_task: str) -> list[str | None]:
        """Return the message ids of the completions that are not released."""
        self.store.tick()
        return [document["message_id"] for _, document in self.store.mailboxes.get(spout_task, [])]

    def reset(self) -> None:
        """Empty the store, as a Redis that comes back without its data."""
        self.store.empty()

    def _body(self, request: httpx.Request) -> Document:
        if request.headers.get("Content-Type") != CONTENT_TYPE:
            return decode_json(request.content)
        return {
            "ops": [encode_operation(operation) for operation in decode_packed(request.content, max_operations=MAX_OPS)]
        }

    def _handle(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            return self._answer_or_fail(request, self.faults.popleft() if self.faults else None)

    def _answer_or_fail(self, request: httpx.Request, failure: Any) -> httpx.Response:
        library = library_of(request)
        if isinstance(failure, _http_library.errors("TransportError")):
            raise failure
        if isinstance(failure, library.Response):
            return failure  # type: ignore[no-any-return]  # of either library
        if hasattr(failure, "status_code"):  # a response of the other library
            return _response(library, failure.status_code, headers=failure.headers.raw, content=failure.content)
        try:
            if isinstance(failure, errors.ServiceError):
                raise failure
            answer = self._answer(request)
        except errors.ServiceError as error:
            return _problem(library, error)
        if isinstance(failure, lost_reply):
            raise failure.error
        return _response(library, 200, json=answer)

    def _answer(self, request: httpx.Request) -> Document:
        base, _, below = request.url.path.partition(f"{routes.topologies()}/")
        topology, *rest = below.split("/")
        if base or not below:
            raise errors.NotFound("there is nothing at this address")
        if topology == self.topology and request.method == "PUT" and not rest:
            self.exists = True
        if topology != self.topology or not self.exists:
            raise errors.UnknownTopology(f"there is no topology {topology}; PUT {routes.topology(topology)} creates it")
        match request.method, rest:
            case "GET", []:
                return self._topology_document()
            case "PUT", []:
                return self._put_topology(decode_json(request.content) if request.content else {})
            case "DELETE", []:
                self.exists = False
                return {}
            case "POST", ["batch"]:
                states = self._write(request, self._batch(request))
                return {"accepted": sum(state not in REFUSED for state in states), "results": states}
            case "POST", [verb] if verb in VERBS:
                return self._single(request, decode_operation(verb, decode_json(request.content)))
            case method, ["roots" | "spouts" as what, name, *more]:
                return self.store.answer(method, (what, *more), name, _parameters(request))
        raise errors.NotFound("there is nothing at this address")

    def _topology_document(self) -> Document:
        rules = self.store.rules
        return {
            "topology": self.topology,
            "idempotency_window_ms": self.idempotency_window_ms,
            "dedupe_window_ms": rules.dedupe_window_ms,
            "dedupe_automatic": self._dedupe_automatic,
            "message_timeout_ms": rules.message_timeout_ms,
            "progress_timeout_ms": rules.progress_timeout_ms or None,
            "retention_ms": rules.retention_ms,
            "max_spout_pending": self.store.max_spout_pending,
            "end_on": rules.end_on,
            "grace_ms": rules.grace_ms,
        } | self._shown

    def _put_topology(self, document: Document) -> Document:
        known = {name: value for name, value in document.items() if name in TopologyRules.__dataclass_fields__}
        if "end_on" in known:
            known["end_on"] = EndOn(known["end_on"] or EndOn.FIRST_FAIL)
        rules = replace(self.store.rules, **known)
        if "dedupe_window_ms" in document:
            self._dedupe_automatic = document["dedupe_window_ms"] is None
        if self._dedupe_automatic:
            rules = replace(rules, dedupe_window_ms=rules.message_timeout_ms)
        self.store.rules = rules
        self.store.max_spout_pending = document.get("max_spout_pending", self.store.max_spout_pending)
        self._shown |= {name: value for name, value in document.items() if name in self._shown}
        return self._topology_document()

    def _batch(self, request: httpx.Request) -> list[Operation]:
        if request.headers["Content-Type"] == CONTENT_TYPE:
            return decode_packed(request.content, max_operations=MAX_OPS)
        return decode_batch(decode_json(request.content), max_operations=MAX_OPS)

    def _single(self, request: httpx.Request, operation: Operation) -> Document:
        [state] = self._write(request, [operation])
        if state in REFUSED:
            raise errors.known()[state]("refused")
        return {"root_id": f"{operation.root_id:016x}", "state": state}

    def _write(self, request: httpx.Request, operations: list[Operation]) -> list[OperationState]:
        key = request.headers[routes.IDEMPOTENCY_KEY]
        return self.store.write((request.url.path, key, request.content), operations)


def _parameters(request: httpx.Request) -> "Mapping[str, Any]":
    """The parameters of a request, in its query or its body."""
    return dict(request.url.params) | (decode_json(request.content) if request.content else {})


def _problem(library: Any, error: errors.ServiceError) -> httpx.Response:
    headers = {"Retry-After": str(error.extra.get("retry_after_s", 1))} if error.status in (429, 503) else {}
    return _response(library, error.status, json=error.document(), headers=headers)


def _response(library: Any, status: int, **content: Any) -> httpx.Response:
    return library.Response(status, **content)  # type: ignore[no-any-return]  # of either library
