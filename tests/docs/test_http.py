"""What the page about bolts over HTTP says of answers is what the middleware does."""

import re

from acker_client.integrations.asgi import RETRY_STATUSES

from tests.support.pages import DOCS


def test_the_page_lists_the_answers_that_leave_a_tuple_open() -> None:
    [listed] = re.findall(r"^\| answers ([\d, ]+) \| left open \|$", (DOCS / "http.md").read_text(), re.MULTILINE)
    assert [int(status) for status in listed.split(",")] == sorted(RETRY_STATUSES)
