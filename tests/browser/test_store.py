"""The page while its store is away, and after it is back."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import PATIENCE_MS, opened
from tests.browser.scene import Scene
from tests.support.servers import acker_serve
from tests.support.stores import running


def test_the_page_says_that_the_store_is_away_and_goes_on_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    with (
        running("valkey", tmp_path) as store,
        acker_serve(tmp_path, "--redis-url", store.url) as acker,
        opened(browser, acker.url) as page,
    ):
        scene = Scene(acker.http, "orders").create()
        scene.emit(3)
        page.goto("/ui/")
        state = page.locator("#state")
        row = page.get_by_role("row").filter(has_text="orders")
        expect(row.locator('[data-label="Pending"]')).to_have_text("3")
        store.members[0].stop()
        expect(state).to_contain_text("the store does not answer", timeout=2 * PATIENCE_MS)
        expect(row).to_be_visible()
        expect(state).to_contain_text("What is shown is of ")
        expect(page.locator("#trouble")).to_contain_text("Runbook: redis away")
        page.get_by_role("searchbox").fill("order-1")
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("main")).to_contain_text("the store does not answer")
        expect(page.get_by_role("main")).not_to_contain_text("Not found")
        page.goto("/ui/#/")
        store.members[0].start()
        expect(state).to_have_text("live", timeout=2 * PATIENCE_MS)
        Scene(acker.http, "orders").create().emit(5)
        expect(row.locator('[data-label="Pending"]')).to_have_text("5")
