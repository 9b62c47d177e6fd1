"""Serves a small HTTP service on a socket that its starter has opened."""

import json
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict
from typing import Any
from urllib.request import ProxyHandler, build_opener

import uvicorn

from examples.support.processes import Processes

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_DIRECT = build_opener(ProxyHandler({}))

LEDGER = "/ledger"
"""A GET of it gives what a service has done."""

Answer = tuple[int, dict[str, Any]]
"""A status and what is said with it."""


def start_service(processes: Processes, name: str, task: Any) -> str:
    """Start the service of a module of this package, its task (a dataclass) as its argument, and return its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    with listener:
        arguments = json.dumps({"listener": listener.fileno(), **asdict(task)})
        processes.start_module(name, f"examples.support.{name}", arguments, inherited=(listener.fileno(),))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def read_ledger(url: str) -> Any:
    """Ask a service what it has done."""
    with _DIRECT.open(url + LEDGER, timeout=30) as answer:
        return json.load(answer)


def serve(answer: Callable[[dict[str, Any]], Awaitable[Answer]], ledger: Callable[[], Any], listener: int) -> None:
    """Serve until SIGTERM: every POST is answered by ``answer``, every GET is one of the ledger."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        status, said = (
            (200, ledger()) if scope["method"] == "GET" else await answer(json.loads(await _read(receive) or b"{}"))
        )
        body = json.dumps(said).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        application, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=listener)])


def task_of_this_process() -> dict[str, Any]:
    """Read the task this process was started with."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    return arguments


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return bytes(body)
