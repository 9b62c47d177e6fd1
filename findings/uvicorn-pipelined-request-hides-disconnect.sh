#!/usr/bin/env bash
# Version: uvicorn 0.54.0 with httptools 0.9.0, and with h11 0.16.0.
# Behaviour: an application that waits for `http.disconnect`, as a long poll does, is told at once that its client has closed the
# connection. If the client had sent one request more behind it, which HTTP/1.1 allows (pipelining), it is told with h11, but not with
# httptools, which uvicorn takes where it is installed: there uvicorn does not read on until the first request is answered, and so
# does not see the end of the connection either. The long poll stays until its own time is over.
# Seen:
#   httptools: one request http.disconnect, two requests nothing
#   h11: one request http.disconnect, two requests http.disconnect
# Needs python3 with venv.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check uvicorn==0.54.0 httptools==0.9.0 h11==0.16.0
cat >program.py <<'PROGRAM'
import asyncio
import socket
import threading

import uvicorn

WAIT_S = 5
ends: list[str] = []


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await receive()  # the request
    try:
        event = await asyncio.wait_for(receive(), WAIT_S)
        ends.append(event["type"])
    except TimeoutError:
        ends.append("nothing")
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def ask(port: int, requests: int) -> str:
    """Send so many requests at once, close the connection a moment later, and return what the first of them is told."""
    ends.clear()
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
    threading.Event().wait(1)
    client.close()
    threading.Event().wait(WAIT_S + 1)
    return ends[0]


def serve(http: str) -> str:
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=http, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        threading.Event().wait(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    told = f"one request {ask(port, 1)}, two requests {ask(port, 2)}"
    server.should_exit = True
    return told


for http in ("httptools", "h11"):
    print(f"{http}: {serve(http)}", flush=True)
PROGRAM
venv/bin/python program.py | tee seen
diff - seen <<'SEEN'
httptools: one request http.disconnect, two requests nothing
h11: one request http.disconnect, two requests http.disconnect
SEEN
