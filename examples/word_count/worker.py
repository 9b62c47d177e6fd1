"""Knows a worker: it takes tuples in over HTTP and answers at once; what it has not worked off when it dies is lost.

That is how queues in memory are, and why there is an acker.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response

from examples.word_count.reports import report

MOST = 200
"""Tuples worked off together: one write, one request to the acker."""

Inbox = asyncio.Queue[Any]
Work = Callable[[list[Any]], Awaitable[None]]


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


def _make_app(inbox: Inbox) -> FastAPI:
    app = FastAPI(openapi_url=None)

    @app.post("/tuples")
    async def take_in(request: Request) -> Response:
        for tuple_ in await request.json():
            inbox.put_nowait(tuple_)
        return Response(status_code=202)

    return app


async def _take(inbox: Inbox) -> list[Any]:
    """Wait for a tuple, and take those that stand behind it along."""
    taken = [await inbox.get()]
    while len(taken) < MOST and not inbox.empty():
        taken.append(inbox.get_nowait())
    return taken
