"""Knows an acker in memory that speaks the contract to httpx, and can be told to fail."""

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any, Unpack

import httpx
from acker_protocol import errors, routes
from acker_protocol.operations import REFUSED, Operation, OperationState
from acker_protocol.states import State, TopologyRules
from acker_protocol.wire.operations import VERBS, decode_batch, decode_json, decode_operation, encode_operation
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed

from acker_client.aio import AsyncAcker, AsyncOptions
from acker_client.sync import Acker, Options
from acker_client.testing.clock import Clock
from acker_client.testing.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

URL = "http://acker.test"
MOST_OPS = 10_000

Document = dict[str, Any]


class after:  # noqa: N801 - reads as a word: faults.append(after(ReadTimeout("lost")))
    """An error raised after the request was applied: the reply is lost."""

    def __init__(self, error: httpx.TransportError) -> None:
        self.error = error


class MemoryAcker:
    """An acker with one topology on the state machine of ``acker_protocol.tree``; it forgets all with the test. ::

        memory = MemoryAcker()
        with memory.acker() as acker:
            ...                                   # the program under test
            acker.flush()
        memory.time.advance(31)                   # roots that are not done time out
        assert memory.unread("orders") == ["42"]  # message ids of the completions not yet released

    Time stands still but for ``time``; a long poll that finds nothing lets its wait pass at once. Rules are those
    of the topology, as is ``max_spout_pending``; ``max_early`` bounds the roots without their init. ``requests``
    are those that came. ``faults`` hit the requests to come, one each, None letting one through: an httpx error is
    raised before anything is applied, or behind it if wrapped in `after`; a `Problem` or a response is answered in
    its place. ``refusals`` are the words for the inits to come. ``store.is_full`` True refuses with ``store_full``
    all that would begin a root. ``exists`` False is a topology that is not there.
    """

    def __init__(
        self,
        topology: str = "default",
        *,
        time: Clock | None = None,
        rules: TopologyRules | None = None,
        max_spout_pending: int | None = None,
        max_early: int | None = None,
    ) -> None:
        self.topology = topology
        self.time = time or Clock()
        self.exists = True
        self.idempotency_window_ms: Any = 600_000
        self.requests: list[httpx.Request] = []
        self.faults: deque[Any] = deque()
        self.store = MemoryStore(
            self.time, rules=rules or TopologyRules(), max_spout_pending=max_spout_pending, max_early=max_early
        )
        self.refusals: deque[OperationState] = self.store.refusals
        self._lock = Lock()

    def transport(self) -> httpx.MockTransport:
        """Give the transport that leads here, for sync and async clients."""
        return httpx.MockTransport(self._handle)

    def acker(self, **options: Unpack[Options]) -> Acker:
        """Make a client of this acker, on its clock; with ``linger_ms`` unset call ``flush()`` before you look."""
        given: Options = {"transport": self.transport(), "sleep": self.time.sleep}
        return Acker(URL, self.topology, **({"clock": self.time.clock, "wall": self.time.clock} | given | options))

    def async_acker(self, **options: Unpack[AsyncOptions]) -> AsyncAcker:
        """As ``acker``, awaited."""
        given: AsyncOptions = {"transport": self.transport(), "sleep": self.time.asleep}
        return AsyncAcker(URL, self.topology, **({"clock": self.time.clock, "wall": self.time.clock} | given | options))

    def writes(self, verb: str = "") -> list[httpx.Request]:
        """Give the requests with operations that came, of one verb (or ``batch``) or all."""
        verbs = {verb} if verb else {*VERBS, "batch"}
        return [request for request in self.requests if request.url.path.rpartition("/")[2] in verbs]

    def bodies(self, verb: str) -> list[Document]:
        """Give what these requests said; a batch in the form of JSON, whatever it came in."""
        return [self._body(request) for request in self.writes(verb)]

    def keys(self, verb: str) -> list[str]:
        """Give the idempotency keys of these requests."""
        return [request.headers[routes.IDEMPOTENCY_KEY] for request in self.writes(verb)]

    @property
    def applied(self) -> "Sequence[Operation]":
        """The operations that were applied, in order."""
        return self.store.applied

    @property
    def roots(self) -> "Mapping[int, State]":
        """Every root by its id, as it stands now."""
        self.store.tick()
        return self.store.roots

    def unread(self, spout_task: str) -> list[str | None]:
        """Give the message ids of the completions not yet released."""
        self.store.tick()
        return [told["message_id"] for _, told in self.store.mailboxes.get(spout_task, [])]

    def lose_everything(self) -> None:
        """Empty the store, as a Redis does that comes back without its data."""
        self.store.empty()

    def _body(self, request: httpx.Request) -> Document:
        if request.headers.get("Content-Type") != CONTENT_TYPE:
            return decode_json(request.content)
        return {
            "ops": [encode_operation(message) for message in decode_packed(request.content, max_operations=MOST_OPS)]
        }

    def _handle(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            return self._struck(request, self.faults.popleft() if self.faults else None)

    def _struck(self, request: httpx.Request, fault: Any) -> httpx.Response:
        if isinstance(fault, httpx.TransportError):
            raise fault
        if isinstance(fault, httpx.Response):
            return fault
        try:
            if isinstance(fault, errors.ServiceError):
                raise fault
            answer = self._answer(request)
        except errors.ServiceError as problem:
            return _refusal(problem)
        if isinstance(fault, after):
            raise fault.error
        return httpx.Response(200, json=answer)

    def _answer(self, request: httpx.Request) -> Document:
        base, _, below = request.url.path.partition(f"{routes.topologies()}/")
        topology, *rest = below.split("/")
        if base or not below:
            raise errors.NotFound("there is nothing at this address")
        if topology != self.topology or not self.exists:
            raise errors.UnknownTopology(f"there is no topology {topology}")
        match request.method, rest:
            case "GET", []:
                return self._facts()
            case "POST", ["batch"]:
                words = self._write(request, self._batch(request))
                return {"accepted": sum(word not in REFUSED for word in words), "results": words}
            case "POST", [verb] if verb in VERBS:
                return self._single(request, decode_operation(verb, decode_json(request.content)))
            case method, ["roots" | "spouts" as what, name, *more]:
                return self.store.answer(method, (what, *more), name, _said(request))
        raise errors.NotFound("there is nothing at this address")

    def _facts(self) -> Document:
        rules = self.store.rules
        return {
            "topology": self.topology,
            "idempotency_window_ms": self.idempotency_window_ms,
            "dedupe_window_ms": rules.dedupe_window_ms,
            "message_timeout_ms": rules.message_timeout_ms,
            "max_spout_pending": self.store.max_spout_pending,
        }

    def _batch(self, request: httpx.Request) -> list[Operation]:
        if request.headers["Content-Type"] == CONTENT_TYPE:
            return decode_packed(request.content, max_operations=MOST_OPS)
        return decode_batch(decode_json(request.content), max_operations=MOST_OPS)

    def _single(self, request: httpx.Request, message: Operation) -> Document:
        [word] = self._write(request, [message])
        if word in REFUSED:
            raise errors.known()[word]("refused")
        return {"root_id": f"{message.root_id:016x}", "state": word}

    def _write(self, request: httpx.Request, messages: list[Operation]) -> list[OperationState]:
        return self.store.write((request.url.path, request.headers[routes.IDEMPOTENCY_KEY], request.content), messages)


def _said(request: httpx.Request) -> "Mapping[str, Any]":
    """What a request asks for, in its address or its body."""
    return dict(request.url.params) | (decode_json(request.content) if request.content else {})


def _refusal(problem: errors.ServiceError) -> httpx.Response:
    headers = {"Retry-After": str(problem.extra.get("retry_after_s", 1))} if problem.status in (429, 503) else {}
    return httpx.Response(problem.status, json=problem.document(), headers=headers)
