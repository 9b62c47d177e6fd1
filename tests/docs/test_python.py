"""What the page about the Python client shows is what happens."""

from pathlib import Path

from tests.support.examples import run
from tests.support.pages import DOCS
from tests.support.servers import acker_serve


def test_the_page_about_the_python_client_works_when_pasted(tmp_path: Path) -> None:
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        run((DOCS / "python.md").read_text(), "python", url=acker.url, folder=tmp_path)
