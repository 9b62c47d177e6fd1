"""What the page about keys shows is what happens."""

from pathlib import Path

from tests.support.examples import run
from tests.support.pages import DOCS
from tests.support.servers import free_port


def test_the_page_about_keys_works_when_pasted(tmp_path: Path) -> None:
    run((DOCS / "access.md").read_text(), "sh", url=f"http://127.0.0.1:{free_port()}", folder=tmp_path)
