#!/usr/bin/env bash
# Version: httpx 0.28.1 with httpcore 1.0.9 and anyio 4.15.1.
# Behaviour: httpcore asks sniffio which event loop runs, but neither it nor httpx nor anyio 4.15 demands sniffio. Where it
# is not there, Python looks for it in all of its path at each lock that httpcore takes: four failed imports a request on
# a kept connection. Once sniffio is there, or with httpcore2, which tries once, there are none.
# Seen:
#   without sniffio: 40 failed imports in 10 requests
#   with sniffio: 0 failed imports in 10 requests
# Needs python3 with venv.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
pip() { venv/bin/pip install --quiet --disable-pip-version-check "$@"; }
pip httpx==0.28.1 httpcore==1.0.9 anyio==4.15.1 h11==0.16.0 certifi idna
cat >program.py <<'PROGRAM'
import asyncio
import importlib.abc
import sys

import httpx


class Counter(importlib.abc.MetaPathFinder):
    """Counts the imports of sniffio that Python does not answer from its table of modules."""

    looked_for = 0

    def find_spec(self, name, path=None, target=None):
        self.looked_for += name == "sniffio"


async def answer(reader, writer):
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    counter = Counter()
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(url)
        sys.meta_path.insert(0, counter)
        for _ in range(10):
            await client.get(url)
        sys.meta_path.remove(counter)
    print(f"{sys.argv[1]}: {counter.looked_for} failed imports in 10 requests")


asyncio.run(main())
PROGRAM
{
    venv/bin/python program.py "without sniffio"
    pip sniffio==1.3.1
    venv/bin/python program.py "with sniffio"
} | tee seen
diff - seen <<'SEEN'
without sniffio: 40 failed imports in 10 requests
with sniffio: 0 failed imports in 10 requests
SEEN
