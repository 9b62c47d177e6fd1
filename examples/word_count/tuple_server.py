"""Receives tuples over HTTP and answers at once; tuples that wait in memory are lost when the worker dies.

The acker notices: nobody acks their edges.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from examples.word_count.reports import report

MOST = 200
"""Tuples processed together: one write, one request to the acker."""

Inbox = asyncio.Queue[Any]
Work = Callable[[list[Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def serve(listener: int, work: Work) -> None:
    """Serve on a socket that the supervisor has opened, until SIGTERM. An exception of ``work`` ends the worker."""
    inbox: Inbox = asyncio.Queue()
    config = uvicorn.Config(_make_app(inbox), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)

    async def work_loop() -> None:
        try:
            while True:
                await work(await _take(inbox))
        finally:
            server.should_exit = True

    report(ready=True)
    working = asyncio.create_task(work_loop())
    await server.serve(sockets=[socket.socket(fileno=listener)])
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def _make_app(inbox: Inbox) -> Application:
    """Make an ASGI application that queues every list of tuples that it receives."""

    async def take_in(_: Scope, receive: Receive, send: Send) -> None:
        for tup in json.loads(await _read(receive)):
            inbox.put_nowait(tup)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    return take_in


async def _read(receive: Receive) -> bytes:
    """Read a body; a body whose sender dies half-way holds no tuples."""
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)
    return b"[]"


async def _take(inbox: Inbox) -> list[Any]:
    """Wait for a tuple, and take those that wait behind it."""
    taken = [await inbox.get()]
    while len(taken) < MOST and not inbox.empty():
        taken.append(inbox.get_nowait())
    return taken
