"""The page's files are served without a key, as they are pinned, under a strict policy."""

import hashlib
from pathlib import Path

import acker_service.web
import httpx
import pytest
from acker_service.http import ui

from tests.support.pages import DOCS

pytestmark = pytest.mark.anyio

WEB = Path(acker_service.web.__file__).parent
PINNED = {
    "preact-htm.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}
"""htm's preact/standalone.module.js and uPlot's uPlot.iife.min.js and uPlot.min.css."""
VERSIONS = {"preact-htm.js": "htm 3.1.1 with Preact 10.5.14", "uplot.js": "uPlot (v1.6.32)"}
"""What a file says of itself. Where it was published without that, the line stands before what was published."""
LICENCES = {"LICENSE.htm": "Apache License", "LICENSE.preact": "MIT License", "LICENSE.uplot": "MIT License"}


def test_what_others_wrote_is_as_it_was_published_and_its_licences_are_beside_it() -> None:
    vendored = {file.name: file.read_bytes() for file in (WEB / "vendor").iterdir()}
    published = vendored | {"preact-htm.js": vendored["preact-htm.js"].partition(b"\n")[2]}
    assert {name: hashlib.sha256(published[name]).hexdigest() for name in PINNED} == PINNED
    assert all(words in vendored[name].decode().partition("\nvar ")[0] for name, words in VERSIONS.items())
    assert all(text in vendored[name].decode() for name, text in LICENCES.items())
    assert vendored.keys() == PINNED.keys() | LICENCES.keys()


def test_the_runbook_of_the_page_is_that_of_the_documentation() -> None:
    assert (WEB / "runbook.md").read_text() == (DOCS / "runbook.md").read_text(), "make format copies it"


async def test_the_page_is_served_with_all_its_files(api: httpx.AsyncClient) -> None:
    page = await api.get("/ui/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for name in ui.read_files():
        answer = await api.get(f"/ui/{name}")
        assert answer.content == (WEB / name).read_bytes()
        assert answer.headers["Content-Security-Policy"] == ui.CONTENT_SECURITY_POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(api: httpx.AsyncClient) -> None:
    policy = dict(part.split(" ", 1) for part in ui.CONTENT_SECURITY_POLICY.split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[each] for each in ("script-src", "style-src", "connect-src")} == {"'self'"}
    page = (await api.get("/ui/")).text
    assert "<style" not in page
    assert all(' src="' in tag for tag in page.split("<script")[1:])
    assert "http" not in page


async def test_a_file_that_has_not_changed_is_not_sent_again(api: httpx.AsyncClient) -> None:
    tag = (await api.get("/ui/app.js")).headers["ETag"]
    again = await api.get("/ui/app.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert (await api.get("/ui/app.js", headers={"If-None-Match": '"another"'})).status_code == 200


async def test_the_address_without_its_slash_leads_to_the_page(api: httpx.AsyncClient) -> None:
    answer = await api.get("/ui")
    assert (answer.status_code, answer.headers["Location"]) == (308, "ui/")
    assert (await api.get("/ui", follow_redirects=True)).text == (await api.get("/ui/")).text


@pytest.mark.parametrize(
    "path", ["/ui/nothing", "/ui/../app.py", "/ui/__init__.py", "/ui/vendor", "/ui//app.js", "/uix"]
)
async def test_nothing_else_is_served_there(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_page_takes_no_other_method(api: httpx.AsyncClient) -> None:
    answer = await api.post("/ui/")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD"
    head = await api.head("/ui/")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len((await api.get("/ui/")).content)


async def test_requests_of_the_page_are_counted_under_one_address(api: httpx.AsyncClient) -> None:
    await api.get("/ui/app.js")
    await api.get("/ui/nothing")
    metrics = (await api.get("/metrics")).text
    assert 'route="/ui/"' in metrics
    assert "app.js" not in metrics
