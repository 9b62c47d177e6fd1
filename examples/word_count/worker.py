"""Knows a worker: it takes tuples in over HTTP and answers at once; what it has not worked off when it dies is lost.

That is how queues in memory are, and why there is an acker.
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
"""Tuples worked off together: one write, one request to the acker."""

Inbox = asyncio.Queue[Any]
Work = Callable[[list[Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def serve(listener: int, work: Work) -> None:
    """Serve on a socket that the supervisor has opened, until SIGTERM. What the work raises ends the worker."""
    inbox: Inbox = asyncio.Queue()
    config = uvicorn.Config(_make_app(inbox), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)

    async def work_off() -> None:
        try:
            while True:
                await work(await _take(inbox))
        finally:
            server.should_exit = True

    report(ready=True)
    working = asyncio.create_task(work_off())
    await server.serve(sockets=[socket.socket(fileno=listener)])
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def _make_app(inbox: Inbox) -> Application:
    """Make an ASGI application that takes in every list of tuples it is sent."""

    async def take_in(_: Scope, receive: Receive, send: Send) -> None:
        for tup in json.loads(await _read(receive)):
            inbox.put_nowait(tup)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    return take_in


async def _read(receive: Receive) -> bytes:
    """Read a body; one of which the sender dies half-way holds no tuples."""
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)
    return b"[]"


async def _take(inbox: Inbox) -> list[Any]:
    """Wait for a tuple, and take those that stand behind it along."""
    taken = [await inbox.get()]
    while len(taken) < MOST and not inbox.empty():
        taken.append(inbox.get_nowait())
    return taken
