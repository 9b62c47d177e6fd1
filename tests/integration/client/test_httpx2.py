"""The client also works where a program has put httpx2 in the place of httpx."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.servers import acker_serve

PROGRAM = """
import httpx2
httpx2.alias_httpx()
import asyncio, json, sys
from acker_client import Acker, AsyncAcker, RetriesExhausted
import httpx
assert httpx is httpx2

def threads():
    with Acker(url) as acker:
        spout = acker.spout("orders")
        with spout.emit(message_id="1") as root:
            headers = root.headers("bill")
        with acker.receive(headers, component="bill"):
            pass
        return next(spout.completions(until=20)).outcome

async def tasks():
    async with AsyncAcker(url) as acker:
        spout = acker.spout("orders")
        async with spout.emit(message_id="1") as root:
            headers = root.headers("bill")
        async with acker.receive(headers, component="bill"):
            pass
        async for done in spout.completions(until=20):
            return done.outcome

def unreachable():
    try:
        with Acker("http://127.0.0.1:1", retry_timeout=0, linger=0) as acker:
            acker.ack(acker.receive({"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}, component="c"))
    except RetriesExhausted as error:
        return type(error.__cause__).__module__.partition(".")[0]

url = sys.argv[1]
print(json.dumps([threads(), asyncio.run(tasks()), unreachable()]))
"""


def test_the_client_works_on_httpx2(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as service:
        command = [sys.executable, "-c", PROGRAM, service.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["acked", "acked", "httpx2"]
