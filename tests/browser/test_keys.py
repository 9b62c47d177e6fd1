"""The page with keys: it shows what a key may see, only reads without the scope `admin`, and says what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from acker_service.http.keys import digest_of
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import opened
from tests.browser.scene import Scene
from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true

READ_ONLY = "needs a key of scope admin"
REFUSED = "This key does not allow it"
READS = {"Look again", "Load more", "Load all", "Export CSV", "Export JSON", "Find", "Copy"}
"""Buttons that change nothing."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Scene]:
    """A topology with one root on an acker with keys."""
    file = keys_file(tmp_path, *SCOPES)
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--keys-file", str(file)) as acker:
        acker.http.headers.update(bearer("admin"))
        scene = Scene(acker.http, "orders").create()
        scene.emit(1)
        yield scene


@pytest.fixture
def locked(browser: Browser, guarded: Scene) -> Iterator[Page]:
    """The page of the acker with keys, before one is shown."""
    with opened(browser, str(guarded.http.base_url)) as page:
        page.goto("/ui/")
        yield page


def show_key(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Use this key").click()


def fail_button(page: Page, root: str) -> str:
    """Open the view of a root; give the name of its button."""
    page.goto(f"/ui/#/t/orders/roots/{root}")
    return f"Fail root {root}"


def test_a_key_without_the_scope_is_refused_and_the_page_says_so(locked: Page, guarded: Scene) -> None:
    show_key(locked, "unknown")
    expect(locked.get_by_role("alert")).to_contain_text("A key is needed")
    show_key(locked, "ack")
    locked.get_by_role("link", name="orders").click()
    locked.get_by_role("link", name="Spout tasks").click()
    expect(locked.get_by_role("alert")).to_contain_text(REFUSED)
    locked.get_by_role("link", name="System").click()
    expect(locked.get_by_role("alert")).to_contain_text(REFUSED)
    locked.get_by_role("button", name="Forget the key").click()
    expect(locked.get_by_label("Key", exact=True)).to_be_visible()


@pytest.mark.parametrize("scope", ["ack", "spout"])
def test_without_the_scope_admin_the_page_only_reads(locked: Page, guarded: Scene, scope: str) -> None:
    (root,) = guarded.edges
    show_key(locked, scope)
    expect(locked.locator("#read-only")).to_contain_text(READ_ONLY)
    button = fail_button(locked, root)
    expect(locked.get_by_role("button", name=button)).to_be_disabled()
    locked.get_by_role("link", name="Try it").click()
    expect(locked.get_by_role("button", name="Emit a root")).to_be_disabled()
    locked.goto("/ui/#/t/orders/spouts/shop")
    expect(locked.get_by_role("heading", level=1)).to_have_text("Spout task shop of orders")
    looked = locked.get_by_role("region", name="Unread completions", exact=True).or_(locked.get_by_role("alert")).first
    expect(looked).to_be_visible()
    assert set(locked.locator("main button:enabled").all_inner_texts()) <= READS


def test_an_act_that_the_acker_refuses_is_not_done_and_the_page_says_so(
    locked: Page, guarded: Scene, tmp_path: Path
) -> None:
    (root,) = guarded.edges
    show_key(locked, "admin")
    expect(locked.get_by_role("link", name="orders")).to_be_visible()
    button = fail_button(locked, root)
    locked.get_by_role("button", name=button).click()
    locked.get_by_label("Type fail to confirm").fill("fail")
    demoted = {"name": "admin", "sha256": digest_of("admin").hex(), "scope": "spout", "topologies": "*"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [demoted]}))
    eventually_true(lambda: guarded.http.get("/v1/status").status_code == httpx.codes.FORBIDDEN)
    locked.get_by_role("dialog").get_by_role("button", name=button).click()
    expect(locked.get_by_role("alert")).to_contain_text(REFUSED)
    expect(locked.locator("#root-state")).to_have_text("pending")
    assert guarded.completions() == []


def test_the_key_is_kept_in_the_tab_only(browser: Browser, guarded: Scene) -> None:
    with browser.new_context(base_url=str(guarded.http.base_url)) as context:
        page, other = context.new_page(), context.new_page()
        page.goto("/ui/")
        show_key(page, "ack")
        page.get_by_role("link", name="orders").wait_for()
        page.reload()
        page.get_by_role("link", name="orders").wait_for()
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        other.goto("/ui/")
        expect(other.get_by_label("Key", exact=True)).to_be_visible()
