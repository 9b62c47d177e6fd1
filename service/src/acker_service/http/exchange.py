"""Reads a request that has arrived whole, and writes its answer at once, past uvicorn's two messages of ASGI."""

from collections.abc import Iterable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

CYCLE = "acker.cycle"
"""The key in a request's scope that holds uvicorn's state of the request, where a connection of ours received it."""

RawHeaders = Iterable[tuple[bytes, bytes]]


def whole_body(cycle: RequestResponseCycle) -> bytes | None:
    """Give the body of a request if nothing has to be waited for; it can still be received.

    None if some of it is missing, if the client is gone, or if the client waits for `100 Continue`.
    """
    if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    return bytes(cycle.body)


def write_answer(cycle: RequestResponseCycle, status: int, headers: RawHeaders, body: bytes) -> None:
    """Write a whole answer with one call of the transport, as `RequestResponseCycle.send` writes it with two.

    ``headers`` are lower case, and hold `content-length` and no `connection`. An answer for which there is no client
    any more is dropped.
    """
    if cycle.disconnected:
        return
    parts = [STATUS_LINE[status]]
    for name, value in cycle.default_headers:
        parts += (name, b": ", value, b"\r\n")
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts += (b"\r\n", body)
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
