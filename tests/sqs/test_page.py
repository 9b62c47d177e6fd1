"""What docs/sqs.md says to paste works when pasted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sqs.conftest import Server
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess


@pytest.mark.timeout(300)
def test_the_page_works_when_pasted(process: AckerProcess, server: Server, tmp_path: Path) -> None:
    text = (DOCS / "sqs.md").read_text()
    for shown, url in (("http://127.0.0.1:9324", server.url), ("http://127.0.0.1:8700", process.url)):
        assert shown in text
        text = text.replace(shown, url)
    *programs, answer = [fence.code for fence in fences(text)]
    login = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "elasticmq"}
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)],
        env=os.environ | login, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    assert ran.stdout.strip() == answer.strip()
