"""What docs/celery.md and docs/dramatiq.md show is what happens."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers import one
from tests.queues.harness import Worker
from tests.support.pages import DOCS, fences
from tests.support.servers import acker_serve

SHOWN_REDIS, SHOWN_ACKER = "redis://127.0.0.1:6379", "http://127.0.0.1:8700"
WORKERS = {
    "celery.md": ["-m", "celery", "--app", "crawl", "worker", "--concurrency", "2", "--pool", "threads"],
    "dramatiq.md": ["-m", "dramatiq", "crawl", "--processes", "1", "--threads", "2"],
}


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A Redis and an acker of this test's own."""
    with one(tmp_path / "redis") as redis, acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        yield redis.url, acker.url


@pytest.mark.parametrize("page", WORKERS)
def test_a_page_about_a_queue_works_when_pasted(page: str, urls: tuple[str, str], tmp_path: Path) -> None:
    text = (DOCS / page).read_text()
    for shown, url in zip((SHOWN_REDIS, SHOWN_ACKER), urls, strict=True):
        assert shown in text
        text = text.replace(shown, url)
    tasks, create, sender, answer = [fence.code for fence in fences(text)]
    (tmp_path / "crawl.py").write_text(tasks)
    run_python(create, tmp_path)
    worker = Worker(WORKERS[page], environment={"PYTHONPATH": str(tmp_path)}, log=tmp_path / "worker.log")
    worker.start()
    try:
        shown = run_python(sender, tmp_path)
    finally:
        worker.stop()
    assert shown.strip() == answer.strip()


def run_python(code: str, folder: Path) -> str:
    """Run a block in a folder, and give what it prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=200).stdout
