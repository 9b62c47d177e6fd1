"""Receives the requests to operations within the limits of the process, and sends their answers.

A plain request on a connection of our own is read and answered in callbacks, without a task (`Exchanges.begin`). Others
come over ASGI (`Exchanges.serve`).
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from acker_protocol.errors import InvalidRequest, Overloaded, ServiceError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from acker_service.http import problems
from acker_service.http.answers import Answer, answer_error
from acker_service.http.http_metrics import OTHER, count_answer
from acker_service.http.load_shedding import FLOW, BoundedBody, Load
from acker_service.http.operations import Address, Operations
from acker_service.http.origins import OriginCheck
from acker_service.http.parameters import check_size, first_of_each, read_body
from acker_service.http.plain_requests import PlainRequest, PlainRequests
from acker_service.http.request_id import HEADER, choose_id
from acker_service.metrics.instruments import IN_FLIGHT
from acker_service.metrics.logs import log_request

_METHOD = "POST"


class Exchanges:
    """Serves operations over ASGI under the same limits and metrics as FastAPI's layers."""

    def __init__(self, operations: Operations, load: Load, origins: OriginCheck) -> None:
        self.operations = operations
        self.load = load
        self._origins = origins
        self._plain = PlainRequests(operations.find, max_head_bytes=load.max_header_bytes)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, data: bytes, connection: "Answering") -> bool:
        """Begin to answer the request that these bytes are, if it is plain and there is room for it.

        The connection gets the answer, maybe before this returns. False: ASGI has to serve it, and nothing was done.
        """
        request, load = self._plain.read(data), self.load
        if request is None or not self._origins.takes(request.headers):
            return False
        if not load.begin(len(request.body)):
            return False
        exchange = _Exchange(self, connection, request)
        operations = self.operations
        try:
            admitted = operations.admit(request.address, _METHOD, request.headers, request.query)
            check_size(len(request.body), max_bytes=operations.max_body_bytes)
            rest = operations.begin(admitted, request.body, exchange)
        except Exception as error:  # noqa: BLE001 - answered and logged as those of other addresses are
            exchange.set_exception(error)
            return True
        if rest is not None:
            task = asyncio.create_task(exchange.follow(rest))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def serve(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, load, flow = time.perf_counter(), self.load, scope.get(FLOW)
        if flow is not None and flow.write_paused:
            await flow.drain()
        try:
            load.in_flight.acquire()
        except Overloaded as error:
            load.metrics.count_overloaded(IN_FLIGHT)
            answer = answer_error(error)
            count_answer(load.metrics, OTHER, scope["method"], answer.status, answer.problem, started)
            await _send(answer, send)
            return
        try:
            body = BoundedBody(receive, load.bytes, load.body_timeout_s, load.metrics)
            try:
                answer = await self._answer(address, scope, body)
                # counted before it is sent: a client that has the answer finds it counted
                count_answer(
                    load.metrics, address.route.template, scope["method"], answer.status, answer.problem, started
                )
                await _send(answer, send)
            finally:
                load.bytes.release(body.held)
            if flow is not None and flow.write_paused:  # wait until the client has taken all but the last 64 KiB
                await load.unread.taken(flow)
        finally:
            load.in_flight.release()

    async def _answer(self, address: Address, scope: Scope, body: BoundedBody) -> Answer:
        operations = self.operations
        try:
            headers = first_of_each(scope["headers"])
            request = operations.admit(address, scope["method"], headers, scope["query_string"])
            whole = await read_body(body.receive, max_bytes=operations.max_body_bytes)
            # rule: an operation is not applied whose key was removed while its body arrived
            request = operations.check_again(request, headers)
            return await operations.answer(request, whole)
        except ClientDisconnect:
            return answer_error(InvalidRequest("the body was cut off"))
        except Exception as error:  # noqa: BLE001 - answered and logged as those of other addresses are
            return _answer_failure(error, scope["method"], scope["path"])


class Answering(Protocol):
    """A connection of our own while a plain request is answered on it."""

    def answer(self, answer: Answer, request_id: bytes) -> None:
        """Write the answer, unless the client is gone, and go on with what has arrived since."""


class _Exchange:
    """A plain request that waits for its answer, and the capacity that it uses."""

    __slots__ = ("_connection", "_exchanges", "_logged", "_request", "_request_id", "_started")

    def __init__(self, exchanges: Exchanges, connection: Answering, request: PlainRequest) -> None:
        self._exchanges = exchanges
        self._connection = connection
        self._request = request
        self._started = time.perf_counter()
        self._request_id = choose_id(request.headers.get(HEADER))
        self._logged = log_request(self._request_id)

    def set_result(self, answer: Answer, /) -> None:
        """Count the answer before it is sent: a client that has it finds it counted."""
        load, request = self._exchanges.load, self._request
        template = request.address.route.template
        count_answer(load.metrics, template, _METHOD, answer.status, answer.problem, self._started)
        self._logged.id = None
        load.end(len(request.body))
        self._connection.answer(answer, self._request_id)

    def set_exception(self, error: BaseException, /) -> None:
        """Answer with what is wrong."""
        self.set_result(_answer_failure(error, _METHOD, self._request.address.path))

    async def follow(self, answer: Coroutine[Any, Any, Answer]) -> None:
        """Answer with what a coroutine returns or raises."""
        try:
            found = await answer
        except Exception as error:  # noqa: BLE001 - answered and logged as those of other addresses are
            self.set_exception(error)
        else:
            self.set_result(found)


def _answer_failure(error: BaseException, method: str, path: str) -> Answer:
    if isinstance(error, ServiceError):
        return answer_error(error)
    return Answer.of(problems.respond_unexpected(method, path, error))


async def _send(answer: Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
    await send({"type": "http.response.body", "body": answer.body})


def encode_answer(answer: Answer, headers: Iterable[tuple[bytes, bytes]], *, is_last: bool) -> bytes:
    """Encode a whole answer for one write, with headers before its own; the last one of its connection says so."""
    parts = [STATUS_LINE[answer.status]]
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"connection: close\r\n\r\n" if is_last else b"\r\n")
    parts.append(answer.body)
    return b"".join(parts)
