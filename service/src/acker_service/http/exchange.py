"""Receives the requests to operations within the limits of the process, and sends their answers.

On a connection of our own a request that has arrived whole is read, and its answer written at once, past uvicorn's
messages of ASGI.
"""

import time

from acker_protocol.errors import InvalidRequest, Overloaded, ServiceError
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from acker_service.http import problems
from acker_service.http.answers import Answer, answer_error
from acker_service.http.http_metrics import OTHER, count_answer
from acker_service.http.load_shedding import FLOW, BoundedBody, Load
from acker_service.http.operations import Address, Operations
from acker_service.http.parameters import check_size, first_of_each, read_body
from acker_service.metrics.instruments import IN_FLIGHT

CYCLE = "acker.cycle"
"""The key in a request's scope that holds uvicorn's state of the request, where a connection of ours received it."""


class Exchanges:
    """Serves operations over ASGI under the same limits and metrics as FastAPI's layers."""

    def __init__(self, operations: Operations, load: Load) -> None:
        self.operations = operations
        self._load = load

    async def serve(
        self, address: Address, scope: Scope, receive: Receive, send: Send, cycle: RequestResponseCycle | None
    ) -> None:
        """Answer a request; ``cycle`` is uvicorn's state of it, from a connection of ours."""
        started, load, flow = time.perf_counter(), self._load, scope.get(FLOW)
        if flow is not None and flow.write_paused:
            await flow.drain()
        try:
            load.in_flight.acquire()
        except Overloaded as error:
            load.metrics.count_overloaded(IN_FLIGHT)
            answer = answer_error(error)
            count_answer(load.metrics, OTHER, scope["method"], answer.status, answer.problem, started)
            if cycle is None:
                await _send(answer, send)
            else:
                write_answer(cycle, answer)
            return
        try:
            body = BoundedBody(receive, load.bytes, load.body_timeout_s, load.metrics)
            try:
                answer = await self._answer(address, scope, body, cycle)
                # counted before it is sent: a client that has the answer finds it counted
                count_answer(
                    load.metrics, address.route.template, scope["method"], answer.status, answer.problem, started
                )
                if cycle is None:
                    await _send(answer, send)
                else:
                    write_answer(cycle, answer)
            finally:
                load.bytes.release(body.held)
            if flow is not None and flow.write_paused:  # wait until the client has taken all but the last 64 KiB
                await load.unread.taken(flow)
        finally:
            load.in_flight.release()

    async def _answer(
        self, address: Address, scope: Scope, body: BoundedBody, cycle: RequestResponseCycle | None
    ) -> Answer:
        operations = self.operations
        try:
            headers = first_of_each(scope["headers"])
            request = operations.admit(address, scope["method"], headers, scope["query_string"])
            whole = None if cycle is None else whole_body(cycle)
            if whole is None:
                whole = await read_body(body.receive, max_bytes=operations.max_body_bytes)
                # rule: an operation is not applied whose key was removed while its body arrived
                request = operations.check_again(request, headers)
            else:
                body.hold(len(whole))
                check_size(len(whole), max_bytes=operations.max_body_bytes)
            return await operations.answer(request, whole)
        except ServiceError as error:
            return answer_error(error)
        except ClientDisconnect:
            return answer_error(InvalidRequest("the body was cut off"))
        except Exception as error:  # noqa: BLE001 - answered and logged as those of other addresses are
            return Answer.of(await problems.respond_unexpected(Request(scope), error))


async def _send(answer: Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
    await send({"type": "http.response.body", "body": answer.body})


def whole_body(cycle: RequestResponseCycle) -> bytes | None:
    """Return the body of a request if nothing has to be waited for; it can still be received.

    None if some of it is missing, if the client is gone, or if the client waits for `100 Continue`.
    """
    if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    return bytes(cycle.body)


def write_answer(cycle: RequestResponseCycle, answer: Answer) -> None:
    """Write a whole answer with one call of the transport, as `RequestResponseCycle.send` writes it with two.

    Its headers hold `content-length` and no `connection`. An answer for which there is no client any more is dropped.
    """
    if cycle.disconnected:
        return
    parts = [STATUS_LINE[answer.status]]
    for name, value in cycle.default_headers:
        parts += (name, b": ", value, b"\r\n")
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    if cycle.scope["method"] != "HEAD":
        parts.append(answer.body)
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
