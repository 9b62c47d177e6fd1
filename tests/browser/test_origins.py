"""What a real Chromium sends for pages of other origins, and that none of it acts on an acker without keys."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.browser.conftest import PATIENCE_MS, REBOUND, opened
from tests.browser.scene import Scene
from tests.support.receivers import served
from tests.support.servers import AckerProcess, acker_serve

FETCH = """async ([url, method]) => {
  try { return (await fetch(url, { method, mode: "no-cors" })).type; } catch (error) { return String(error); }
}"""
LOAD = """([tag, src]) => new Promise((done) => {
  const element = Object.assign(document.createElement(tag), { src });
  for (const end of ["load", "error"]) element.addEventListener(end, () => done(end));
  document.body.appendChild(element);
})"""
READ = "async (url) => { const answer = await fetch(url); return [answer.status, (await answer.json()).code]; }"
SITES = {"same-site": "127.0.0.1", "cross-site": "localhost"}
"""The host of a page on another port of this machine, by what it is to an acker at 127.0.0.1."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways in which a page of another site asks without being asked whether it may."""

    page: Page
    discard: str

    def fetch(self) -> None:
        assert self.page.evaluate(FETCH, [self.discard, "POST"]) == "opaque"

    def beacon(self) -> None:
        with self.page.expect_request_finished(lambda request: request.url == self.discard):
            assert self.page.evaluate("(url) => navigator.sendBeacon(url)", self.discard)

    def form(self) -> None:
        with self.page.expect_response(self.discard) as answered:
            self.page.evaluate(
                "(url) => document.body.appendChild("
                "Object.assign(document.createElement('form'), { action: url, method: 'post' })).submit()",
                self.discard,
            )
        assert (answered.value.status, answered.value.json()["code"]) == (403, "forbidden_origin")


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """Serve a site of somebody else, at any address of this machine, and yield its port."""

    async def answer(request: Request) -> Response:
        target = request.query_params.get("link", "")
        return HTMLResponse(f'<!doctype html><title>elsewhere</title><body><a href="{target}">the acker</a>')

    with served(Starlette(routes=[Route("/", answer)])) as port:
        yield port


@contextlib.contextmanager
def foreign(browser: Browser, url: str) -> Iterator[Page]:
    """Open a page that is not the acker's; it may ask any host."""
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        yield page


@pytest.mark.parametrize("host", SITES.values(), ids=SITES)
@pytest.mark.parametrize("way", ["fetch", "beacon", "form"])
def test_a_page_of_another_origin_discards_nothing(
    browser: Browser, acker: AckerProcess, scene: Scene, elsewhere: int, way: str, host: str
) -> None:
    scene.ack(scene.emit(3))
    unread = scene.completions()
    discard = f"{acker.url}{scene.path}/spouts/shop/completions/discard"
    with foreign(browser, f"http://{host}:{elsewhere}/") as page:
        getattr(Ways(page=page, discard=discard), way)()
    assert scene.completions() == unread


def test_a_page_of_another_origin_cannot_frame_the_page_nor_load_its_files(
    browser: Browser, acker: AckerProcess, elsewhere: int
) -> None:
    with foreign(browser, f"http://localhost:{elsewhere}/") as page:
        for tag, path in (("img", "/ui/icon.svg"), ("script", "/ui/chart.js")):
            assert page.evaluate(LOAD, [tag, f"{acker.url}{path}"]) == "error"
        with page.expect_response(f"{acker.url}/ui/") as answered:
            page.evaluate(LOAD, ["iframe", f"{acker.url}/ui/"])
        assert answered.value.status == 403


@pytest.mark.parametrize("host", SITES.values(), ids=SITES)
def test_a_link_of_another_site_leads_to_the_page_and_the_page_acts(
    browser: Browser, acker: AckerProcess, scene: Scene, elsewhere: int, host: str
) -> None:
    (root,) = scene.emit(1)
    target = f"{acker.url}/ui/#/t/{scene.topology}/roots/{root}"
    with foreign(browser, f"http://{host}:{elsewhere}/?link={target.replace('#', '%23')}") as page:
        page.get_by_role("link", name="the acker").click()
        page.get_by_role("button", name=f"Fail root {root}").click()
        page.get_by_label("Type fail to confirm").fill("fail")
        page.get_by_role("dialog").get_by_role("button", name=f"Fail root {root}").click()
        expect(page.locator("#root-state")).to_have_text("failed")


def test_a_link_of_another_site_to_anything_else_is_refused(
    browser: Browser, acker: AckerProcess, elsewhere: int
) -> None:
    with foreign(browser, f"http://localhost:{elsewhere}/?link={acker.url}/v1/topologies") as page:
        with page.expect_response(f"{acker.url}/v1/topologies") as answered:
            page.get_by_role("link", name="the acker").click()
        assert answered.value.status == 403


def test_a_name_that_is_pointed_at_the_acker_reads_nothing(browser: Browser, acker: AckerProcess) -> None:
    rebound = f"http://{REBOUND}:{urlsplit(acker.url).port}"
    with foreign(browser, f"{rebound}/livez") as page:
        assert page.evaluate(READ, f"{rebound}/v1/topologies") == [403, "forbidden_origin"]
        answered = page.goto(f"{rebound}/ui/")
        assert answered is not None
        assert (answered.status, answered.json()["code"]) == (403, "forbidden_origin")
        assert "ACKER_ALLOWED_HOSTS" in answered.json()["detail"]


def test_under_a_name_that_is_allowed_the_page_shows_all_and_acts(browser: Browser, tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--allowed-hosts", REBOUND) as acker:
        scene = Scene(acker.http, "orders").create()
        scene.ack(scene.emit(2))
        with opened(browser, f"http://{REBOUND}:{urlsplit(acker.url).port}") as page:
            page.goto("/ui/#/t/orders/spouts/shop")
            page.get_by_role("button", name="Discard all unread completions", exact=True).click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Type 2 to confirm").fill("2")
            dialog.get_by_role("button", name="Discard all unread completions", exact=True).click()
            expect(page.get_by_role("table", name="Unread completions")).to_have_count(0)
        assert scene.completions() == []
