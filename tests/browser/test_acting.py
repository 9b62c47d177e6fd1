"""What operators do on the page, they do to the acker."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import WEBHOOKS, opened
from tests.browser.scene import Scene
from tests.support.receivers import Planned, Receiver, served
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
    dialog.get_by_label("Type 2 to confirm").fill("2")
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


def test_the_toy_splits_and_acks_a_root_until_it_is_done(page: Page, scene: Scene) -> None:
    page.goto("/ui/#/try")
    page.get_by_role("combobox").select_option(scene.topology)
    page.get_by_role("button", name="Emit a root").click()
    page.get_by_role("button", name="Split in 2").click()
    for left in (2, 1):
        expect(page.get_by_role("button", name="Ack", exact=True)).to_have_count(left)
        page.get_by_role("button", name="Ack", exact=True).first.click()
    expect(page.locator("#toy-state")).to_contain_text("acked")
    expect(page.locator(".squares")).to_have_attribute("data-lit", "0")
    page.get_by_role("button", name="Emit a root").click()
    page.get_by_role("button", name="Fail", exact=True).click()
    expect(page.locator("#toy-state")).to_contain_text("failed")
    assert sorted(each["outcome"] for each in scene.completions("try-it")) == ["acked", "failed"]


def confirm(page: Page, button: str, word: str) -> None:
    """Press a button that asks for a word or a number, and type it."""
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog", name=button, exact=True)
    dialog.get_by_label(f"Type {word} to confirm").fill(word)
    dialog.get_by_role("button", name=button, exact=True).click()


def test_a_webhook_is_tested_paused_and_resumed_and_its_attempts_are_shown(page: Page, scene: Scene) -> None:
    receiver = Receiver()
    receiver.plan.extend([Planned(status=500)] * 1_000)
    with served(receiver) as port:
        scene.register("shop", f"http://127.0.0.1:{port}/hook")
        scene.ack(scene.emit(3))
        page.goto(f"/ui/#/t/{scene.topology}/spouts/shop")
        callback = page.get_by_role("region", name="Callback")
        expect(callback).to_contain_text("answered 500")
        expect(callback.locator("div", has_text="Tries of the oldest completion").last).to_contain_text(r"2")
        expect(callback.locator("div", has_text="Next try").last).to_contain_text("in ")
        page.get_by_role("button", name="Send a test message").click()
        expect(callback).to_contain_text("Not delivered: status 500")
        with page.expect_response("**/resume") as answered:
            page.get_by_role("button", name="Try now").click()
        assert answered.value.ok
        page.get_by_role("button", name="Pause").click()
        expect(callback.locator(".badge")).to_have_text("paused")
        receiver.plan.clear()
        page.get_by_role("button", name="Resume").click()
        expect(callback.locator(".badge")).to_have_text("on")
        expect(page.locator(".tiles div", has_text="Unread").locator("dd").first).to_have_text("0")
    assert scene.completions() == []


def find(page: Page, error: str) -> None:
    """Show the dead letters whose error has this text."""
    page.get_by_label("Error has").fill(error)
    page.get_by_role("search", name="Filter dead letters").get_by_role("button", name="Find").click()


def test_dead_letters_are_found_by_their_error_replayed_and_discarded(browser: Browser, tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.plan.extend([Planned(status=500)] * 2 + [Planned(status=200)] + [Planned(status=502)] * 2)
    options = ("--data-dir", str(tmp_path / "data"), *WEBHOOKS, "--callback-schedule-s", "0.1")
    with (
        served(receiver) as port,
        acker_serve(tmp_path, *options) as acker,
        opened(browser, acker.url) as page,
    ):
        scene = Scene(acker.http, "orders").create()
        scene.register("shop", f"http://127.0.0.1:{port}/hook")
        scene.ack(scene.emit(1))
        page.goto("/ui/#/t/orders/spouts/shop")
        letters = page.get_by_role("table", name="Dead letters").get_by_role("row")
        expect(letters.filter(has_text="order-0")).to_contain_text("answered 500")
        find(page, "timed out")
        expect(page.get_by_role("region", name="Dead letters", exact=True)).to_contain_text("None.")
        expect(page.get_by_role("button", name="Replay 0", exact=True)).to_be_disabled()
        find(page, "answered 500")
        expect(letters).to_have_count(2)
        confirm(page, "Replay 1", "1")
        expect(letters).to_have_count(0)
        scene.ack(scene.emit(1, prefix="late-"))
        page.get_by_role("link", name="Show all").click()
        page.reload()
        expect(letters.filter(has_text="late-0")).to_contain_text("answered 502")
        confirm(page, "Discard 1", "1")
        expect(letters).to_have_count(0)
        delivered = [
            entry["message_id"] for each in receiver.received[2:3] for entry in each.document["data"]["completions"]
        ]
        assert delivered == ["order-0"]
        page.goto("/ui/#/audit")
        acts = page.get_by_role("table", name="Acts").get_by_role("row")
        expect(acts.nth(1)).to_contain_text("dead letters discarded")
        expect(acts.nth(2)).to_contain_text("dead letters replayed")


def test_unread_completions_are_discarded_by_typing_the_word(page: Page, scene: Scene) -> None:
    scene.ack(scene.emit(4))
    page.goto(f"/ui/#/t/{scene.topology}/spouts/shop")
    expect(page.get_by_role("table", name="Unread completions").get_by_role("row")).to_have_count(5)
    assert len(scene.completions()) == 4
    confirm(page, "Discard all unread completions", "4")
    expect(page.get_by_role("table", name="Unread completions")).to_have_count(0)
    assert scene.completions() == []
