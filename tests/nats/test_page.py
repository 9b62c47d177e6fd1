"""What docs/nats.md says to paste works when pasted."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nats.conftest import running_server
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess


@pytest.mark.timeout(1200)
def test_the_page_works_when_pasted(process: AckerProcess, program: Path, tmp_path: Path) -> None:
    text = (DOCS / "nats.md").read_text()
    with running_server(program, tmp_path / "server") as server:
        for shown, url in (("nats://127.0.0.1:4222", server.url), ("http://127.0.0.1:8700", process.url)):
            assert shown in text
            text = text.replace(shown, url)
        *programs, answer = [fence.code for fence in fences(text)]
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(programs)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200,
        )  # fmt: skip
    assert ran.stdout.strip() == answer.strip()
