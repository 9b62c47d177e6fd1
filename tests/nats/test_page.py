"""What docs/nats.md says to paste works when pasted."""

import asyncio
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from tests.nats.conftest import Reading, Stream, running_server
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true


@pytest.mark.timeout(1200)
def test_the_page_works_when_pasted(process: AckerProcess, program: Path, tmp_path: Path) -> None:
    text = (DOCS / "nats.md").read_text()
    with running_server(program, tmp_path / "server") as server:
        for shown, url in (("nats://127.0.0.1:4222", server.url), ("http://127.0.0.1:8700", process.url)):
            assert shown in text
            text = text.replace(shown, url)
        *programs, answer, _ = [fence.code for fence in fences(text)]
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(programs)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
    assert ran.stdout.strip() == answer.strip()


@pytest.mark.timeout(1200)
def test_dead_letters_are_published_as_the_page_shows(reading: Reading, program: Path, tmp_path: Path) -> None:
    *_, shown = [fence.code for fence in fences((DOCS / "nats.md").read_text())]
    with running_server(program, tmp_path) as server:
        names: dict[str, object] = {"asyncio": asyncio, "nats": nats, "url": server.url}
        exec(shown, names)
        stream, dead = Stream(url=server.url), Stream(url=server.url, name="dead")
        stream.create()
        dead.create()
        stream.send("a", headers={"kind": "order"})
        with reading(stream, on_failed=names["on_failed"]) as reader:
            for number in range(5):
                reader.wait_for(number + 1)
                reader.fail(number)
            eventually_true(lambda: stream.left() == 0)
        assert (reader.error, dead.left()) == (None, 1)
        letter = dead.ask(lambda context: context.get_msg("dead", 1))
        assert (letter.data, dict(letter.headers or {})) == (b"a", {"kind": "order"})
