"""What operators do on the page, they do to the acker; a key without the right is refused, and the page says so."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watch
from tests.browser.scene import Scene
from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.servers import acker_serve


def test_roots_failed_by_hand_reach_their_spout_task(page: Page, scene: Scene) -> None:
    roots = scene.emit(5)
    page.goto(f"/ui/#/t/{scene.topology}/roots")
    for root in roots[:2]:
        page.get_by_role("checkbox", name=f"Select {root}").check()
    page.get_by_role("button", name="Fail 2 roots").click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Fail 2 roots")
    dialog.get_by_label("Reason").fill("the bolt is gone")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type fail to confirm").fill("fail")
    confirm.click()
    expect(page.get_by_role("checkbox", name=f"Select {roots[0]}")).to_have_count(0)
    ended = {each["root_id"]: (each["outcome"], each["reason"]) for each in scene.completions()}
    assert ended == dict.fromkeys(roots[:2], ("failed", "forced: the bolt is gone"))


def test_without_the_word_typed_nothing_is_done(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    page.get_by_role("button", name=f"Fail root {root}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type fail to confirm").fill("fai")
    dialog.get_by_label("Type fail to confirm").press("Enter")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert scene.completions() == []


def test_a_root_of_the_toy_is_split_and_acked_until_it_is_done(page: Page, scene: Scene) -> None:
    page.goto("/ui/#/try")
    page.get_by_role("combobox").select_option(scene.topology)
    page.get_by_role("button", name="Emit a root").click()
    page.get_by_role("button", name="Split in 2").click()
    for left in (2, 1):
        expect(page.get_by_role("button", name="Ack", exact=True)).to_have_count(left)
        page.get_by_role("button", name="Ack", exact=True).first.click()
    expect(page.locator("#toy-state")).to_contain_text("acked")
    expect(page.locator(".squares")).to_have_attribute("data-lit", "0")
    assert [each["outcome"] for each in scene.completions("try-it")] == ["acked"]


@pytest.fixture
def guarded(tmp_path: Path) -> Scene:
    """A topology with one root on an acker with keys."""
    file = keys_file(tmp_path, *SCOPES)
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--keys-file", str(file)) as acker:
        acker.http.headers.update(bearer("admin"))
        scene = Scene(acker.http, "orders").create()
        scene.emit(1)
        yield scene


def show_key(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Show it").click()


def test_a_key_without_the_scope_is_refused_and_the_page_says_so(
    browser: Browser, guarded: Scene, watch: Watch
) -> None:
    (root,) = guarded.edges
    with browser.new_context(base_url=str(guarded.http.base_url)) as context:
        page = context.new_page()
        watch.follow(page)
        page.goto("/ui/")
        show_key(page, "unknown")
        expect(page.get_by_role("alert")).to_contain_text("A key is needed")
        show_key(page, "ack")
        page.get_by_role("link", name="orders").click()
        page.get_by_role("link", name="Spout tasks").click()
        expect(page.get_by_role("alert")).to_contain_text("This key does not allow it")
        page.goto(f"/ui/#/t/orders/roots/{root}")
        page.get_by_role("button", name=f"Fail root {root}").click()
        page.get_by_label("Type fail to confirm").fill("fail")
        page.get_by_role("dialog").get_by_role("button", name=f"Fail root {root}").click()
        expect(page.get_by_role("alert")).to_contain_text("This key does not allow it")
        assert guarded.completions() == []
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_label("Key", exact=True)).to_be_visible()
        show_key(page, "admin")
        page.get_by_role("link", name="Store and processes").click()
        expect(page.get_by_role("heading", name="Settings in force")).to_be_visible()
    assert watch.faults == []


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
