"""What docs/redis-streams.md says to paste works when pasted."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from bench.servers import one
from tests.queues.redis_streams.conftest import Reading, Stream
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true


@pytest.mark.timeout(300)
def test_the_page_works_when_pasted(process: AckerProcess, tmp_path: Path) -> None:
    text = (DOCS / "redis-streams.md").read_text()
    with one(tmp_path) as store:
        for shown, url in (("redis://127.0.0.1:6379", store.url), ("http://127.0.0.1:8700", process.url)):
            assert shown in text
            text = text.replace(shown, url)
        *programs, answer, _ = [fence.code for fence in fences(text)]
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(programs)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
    assert ran.stdout.strip() == answer.strip()


def test_dead_letters_are_written_as_the_page_shows(reading: Reading, tmp_path: Path) -> None:
    with one(tmp_path) as store, redis.Redis.from_url(store.url, protocol=2) as connection:
        *_, shown = [fence.code for fence in fences((DOCS / "redis-streams.md").read_text())]
        names: dict[str, object] = {"store": connection}
        exec(shown, names)
        stream = Stream(url=store.url, redis=connection)
        stream.create()
        stream.send("a")
        with reading(stream, on_failed=names["on_failed"]) as reader:
            for number in range(5):
                reader.wait_for(number + 1)
                reader.fail(number)
            eventually_true(lambda: stream.left() == 0)
        [(_, fields)] = connection.xrange("orders:dead")
        assert fields == {b"body": b"a", b"reason": b"no"}
