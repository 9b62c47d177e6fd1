"""The client works on httpx2 and on httpx, with the transports and the clients of both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import acker_serve

PROGRAM = """
import asyncio, json, sys
from acker_client import Acker, AsyncAcker, RetriesExhausted
url, *names = sys.argv[1:]

def threads(transport):
    with Acker(url, transport=transport) as acker:
        spout = acker.spout("orders")
        with spout.emit(message_id="1") as root:
            headers = root.headers("bill")
        with acker.receive(headers, component="bill"):
            pass
        return next(spout.completions(until=20)).outcome

async def tasks(make):
    async with AsyncAcker(url, transport=make()) as acker:
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

ends = [threads(None), asyncio.run(tasks(lambda: None))]
for name in names:
    library = __import__(name)
    for kind in ("HTTPTransport", "Client"):
        ends.append(threads(getattr(library, kind)()))
        ends.append(asyncio.run(tasks(getattr(library, f"Async{kind}"))))
print(json.dumps([unreachable(), len(ends), *sorted(set(ends))]))
"""

HIDE = "import sys; sys.modules['{}'] = None\n"
ALIAS = "import httpx2; httpx2.alias_httpx()\nimport httpx; assert httpx is httpx2\n"


@pytest.mark.parametrize(
    ("before", "given", "used"),
    [
        ("", ["httpx", "httpx2"], "httpx2"),
        (HIDE.format("httpx"), ["httpx2"], "httpx2"),
        (HIDE.format("httpx2"), ["httpx"], "httpx"),
        (ALIAS, ["httpx", "httpx2"], "httpx2"),
    ],
    ids=["both", "httpx2 alone", "httpx alone", "httpx2 in the place of httpx"],
)
def test_the_client_works_on_either_library_with_what_both_give(
    tmp_path: Path, before: str, given: list[str], used: str
) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as service:
        command = [sys.executable, "-c", before + PROGRAM, service.url, *given]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [used, 2 + 4 * len(given), "acked"]
