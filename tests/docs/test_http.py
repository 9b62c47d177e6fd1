"""What the page about bolts over HTTP shows is what happens."""

import re
from pathlib import Path

from acker_client.asgi import OPEN

from tests.support.examples import run
from tests.support.pages import DOCS
from tests.support.servers import acker_serve

PAGE = (DOCS / "http.md").read_text()


def test_the_page_about_bolts_over_http_works_when_pasted(tmp_path: Path) -> None:
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        run(PAGE, "python", url=acker.url, folder=tmp_path)


def test_the_page_lists_the_answers_that_leave_a_tuple_open() -> None:
    [listed] = re.findall(r"^\| answers ([\d, ]+) \| left open \|$", PAGE, re.MULTILINE)
    assert [int(status) for status in listed.split(",")] == sorted(OPEN)
