"""The site in a browser: search finds, pages fit a phone, the keyboard and a screen reader have what they need."""

import re
import shutil
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from docs.site.__main__ import navigation, offer_versions, version, versions
from tests.browser.conftest import opened
from tests.browser.test_looks import NARROW, serious_faults
from tests.site.conftest import served

Scheme = Literal["dark", "light"]

LOOKED_AT = ("index", "docs/python", "docs/spark", "docs/reference/operations", "docs/reference/python-api", "docs/ui")
"""Pages of each kind: prose, tables, tabs, what is generated, pictures."""

FOUND = {
    "how to test a bolt without an acker": "#how-to-test-a-bolt-without-an-acker",
    "test bolt": "#how-to-test-a-bolt-without-an-acker",
    "what a 429 means": "docs/reference/errors.html",
    "429": "docs/reference/errors.html",
    "how to move redis": "docs/redis.html#how-to-move-redis-to-another-server",
    "move redis": "docs/redis.html#how-to-move-redis-to-another-server",
    "what kafka's bolt commits": "docs/kafka.html",
    "kafka bolt commit": "docs/kafka.html",
    "how spark's row level differs": "docs/spark.html#how-sparks-row-level-differs-from-batch-level",
    "spark row level": "docs/spark.html#how-sparks-row-level-differs-from-batch-level",
}
"""What somebody looks for, and the page that answers it."""


def found(page: Page, words: str) -> list[str]:
    """Return the pages that search finds for some words, the best first."""
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill(words)
    marked = page.get_by_role("option").filter(has=page.locator("mark"))
    expect(marked.first).to_be_visible()
    return [str(link.get_attribute("href")) for link in page.get_by_role("option").all()]


@pytest.mark.parametrize("words", FOUND)
def test_search_finds_the_page_that_answers_among_the_first_two(page: Page, words: str) -> None:
    page.goto("/index.html")
    links = [re.sub(r"\?h=[^#]*", "", link) for link in found(page, words)]
    assert any(FOUND[words] in link for link in links[:2]), links[:5]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_no_serious_fault(page: Page, name: str, scheme: Scheme) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(f"/{name}.html")
    assert serious_faults(page) == []


def test_every_page_fits_a_phone_and_asks_no_other_host(browser: Browser, site: str) -> None:
    """`opened` holds that no other host is asked."""
    with opened(browser, site, viewport={"width": NARROW, "height": 800}) as page:
        for path in navigation():
            page.goto(f"/{path.replace('README.md', 'index.md').removesuffix('.md')}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, path


def test_a_language_that_is_chosen_once_is_chosen_everywhere(page: Page) -> None:
    page.goto("/docs/reference/operations.html")
    page.get_by_text("JavaScript", exact=True).first.click()
    page.goto("/docs/reference/roots.html")
    expect(page.get_by_text("await call(").first).to_be_visible()


def test_the_pages_have_an_order(page: Page) -> None:
    page.goto("/index.html")
    page.get_by_role("link", name="Next: The first ten minutes").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("The first ten minutes")
    page.get_by_role("link", name="Previous: Acker").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Acker")


def test_a_page_says_its_version_and_offers_the_others(browser: Browser, html: Path, tmp_path: Path) -> None:
    shutil.copytree(html.parent, tmp_path, dirs_exist_ok=True)
    shutil.copytree(html, tmp_path / "0.0.9")
    offer_versions(tmp_path)
    assert versions(tmp_path) == [version(), "0.0.9"]
    with served(tmp_path) as address, opened(browser, address) as page:
        page.goto("/")
        expect(page).to_have_url(f"{address}/{version()}/")
        expect(page.get_by_role("button", name="Select version")).to_have_text(version())
        page.get_by_role("button", name="Select version").hover(force=True)  # the list opens over it
        page.get_by_role("link", name="0.0.9").click()
        expect(page.get_by_role("button", name="Select version")).to_have_text("0.0.9")
