"""Lists: all of their pages, stop, order, filters in the address, acts on all that match, export."""

import csv
import io
import json
import re
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import WEBHOOKS, opened
from tests.browser.scene import Scene
from tests.browser.test_acting import confirm
from tests.support.receivers import Planned, Receiver, served
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true

BERLIN = {"timezone_id": "Europe/Berlin", "locale": "en-US"}


def rows(page: Page, table: str) -> Locator:
    """The rows of a table, without its head."""
    return page.get_by_role("table", name=table).get_by_role("row").filter(has=page.get_by_role("cell"))


def messages(page: Page, table: str) -> list[str]:
    """The message ids of a table as they stand."""
    return rows(page, table).locator('[data-label="Message"]').all_inner_texts()


def test_all_failures_are_loaded_with_their_number(page: Page, scene: Scene) -> None:
    scene.fail(scene.emit(250))
    page.goto(f"/ui/#/t/{scene.topology}/failures")
    expect(page.get_by_text("100 failures loaded")).to_contain_text("there may be more")
    page.get_by_role("button", name="Load all").click()
    expect(page.get_by_text("All failures that match: 250.")).to_be_visible()
    expect(rows(page, "Failures")).to_have_count(250)
    assert len(set(messages(page, "Failures"))) == 250
    expect(page.get_by_role("button", name="Load more")).to_have_count(0)


def test_loading_all_can_be_stopped_and_goes_on_where_it_stopped(page: Page, scene: Scene) -> None:
    scene.fail(scene.emit(450))
    held: list[Route] = []
    page.goto(f"/ui/#/t/{scene.topology}/failures")
    expect(rows(page, "Failures")).to_have_count(100)
    page.route("**/failures?*after=*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the function
    page.get_by_role("button", name="Load all").click()
    expect(page.get_by_text("100 failures loaded")).to_contain_text("loading…")
    page.get_by_role("button", name="Stop").click()
    for route in held:
        with page.expect_response("**/failures?*after=*"):
            route.continue_()
    page.unroute_all()
    expect(page.get_by_text("100 failures loaded")).to_contain_text("there may be more")
    expect(rows(page, "Failures")).to_have_count(100)
    page.get_by_role("button", name="Load all").click()
    expect(rows(page, "Failures")).to_have_count(450)


def test_a_list_tells_how_many_there_are_and_all_of_it_is_loaded(page: Page, scene: Scene) -> None:
    scene.ack(scene.emit(168))
    page.goto(f"/ui/#/t/{scene.topology}/spouts/shop")
    expect(page.get_by_text("100 completions loaded of 168; there may be more.")).to_be_visible()
    page.get_by_role("region", name="Unread completions", exact=True).first.get_by_role(
        "button", name="Load more"
    ).click()
    expect(page.get_by_text("All completions that match: 168.")).to_be_visible()
    page.get_by_label("Show the loaded that have").fill("order-16")
    expect(page.get_by_text("9 of 168 loaded.")).to_be_visible()
    expect(rows(page, "Unread completions")).to_have_count(9)


def test_what_is_loaded_is_sorted_and_the_page_says_so(page: Page, scene: Scene) -> None:
    scene.fail(scene.emit(3), reason="b")
    scene.fail(scene.emit(3, prefix="late-"), reason="a")
    page.goto(f"/ui/#/t/{scene.topology}/failures")
    page.get_by_label("Sort the loaded by").select_option("Message")
    expected = [f"{prefix}-{n}" for prefix in ("late", "order") for n in range(3)]
    expect(rows(page, "Failures").first).to_contain_text("late-0")
    assert messages(page, "Failures") == expected
    page.get_by_role("button", name="Smallest first").click()
    expect(rows(page, "Failures").first).to_contain_text("order-2")
    assert messages(page, "Failures") == expected[::-1]


def test_failures_are_found_by_reason_text_and_time_and_the_address_keeps_the_filter(page: Page, scene: Scene) -> None:
    roots = scene.emit(5)
    scene.fail(roots[:3], reason="card declined: 51")
    scene.fail(roots[3:], reason="no stock")
    page.goto(f"/ui/#/t/{scene.topology}/failures")
    page.get_by_label("Reason has").fill("declined")
    page.get_by_role("button", name="Find").last.click()
    expect(page.get_by_text("All failures that match: 3")).to_contain_text("5 looked at")
    page.reload()
    expect(rows(page, "Failures")).to_have_count(3)
    page.goto(f"/ui/#/t/{scene.topology}/failures?text=order-4")
    expect(rows(page, "Failures")).to_have_count(1)
    page.goto(f"/ui/#/t/{scene.topology}/failures?to=2020-01-01T00:00:00Z")
    expect(page.get_by_text("None in the last day that fits.")).to_be_visible()
    page.get_by_role("link", name="last 15 min").click()
    expect(rows(page, "Failures")).to_have_count(5)
    expect(page).to_have_url(re.compile("from="))


def test_a_range_is_local_in_the_form_and_utc_in_the_address(browser: Browser, scene: Scene) -> None:
    scene.fail(scene.emit(1))
    with opened(browser, str(scene.http.base_url), **BERLIN) as page:
        page.goto(f"/ui/#/t/{scene.topology}/failures")
        page.get_by_label("From").fill("2026-01-15T09:00:00")
        page.get_by_role("button", name="Find").last.click()
        expect(page).to_have_url(re.compile(r"from=2026-01-15T08%3A00%3A00Z"))
        expect(page.get_by_label("From")).to_have_value(re.compile("2026-01-15T09:00"))
        expect(rows(page, "Failures")).to_have_count(1)


def test_all_roots_that_match_are_failed_by_typing_their_number(page: Page, scene: Scene) -> None:
    scene.emit(120)
    kept = scene.emit(2, spout_task="other")
    page.goto(f"/ui/#/t/{scene.topology}/roots?spout_task=shop")
    expect(page.get_by_text("100 roots loaded")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Fail"))).to_have_count(0)
    page.get_by_role("button", name="Load all").click()
    button = "Fail all that match: 120 roots"
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type 120 to confirm").fill("12")
    expect(dialog.get_by_role("button", name=button)).to_be_disabled()
    dialog.get_by_label("Type 120 to confirm").fill("120")
    dialog.get_by_role("button", name=button).click()
    expect(page.locator("#said")).to_have_text("120 failed.")
    expect(page.get_by_text("No pending root fits.")).to_be_visible()
    assert len(scene.completions()) == 120
    assert scene.completions("other") == []
    assert {root["root_id"] for root in scene.ask("GET", f"{scene.path}/roots")["roots"]} == set(kept)


def test_of_the_dead_letters_those_that_were_counted_are_discarded(browser: Browser, tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.plan.extend([Planned(status=500)] * 10_000)
    options = ("--data-dir", str(tmp_path / "data"), *WEBHOOKS, "--callback-schedule-s", "0.1")
    with served(receiver) as port, acker_serve(tmp_path, *options) as acker, opened(browser, acker.url) as page:
        scene = Scene(acker.http, "orders").create()
        scene.register("shop", f"http://127.0.0.1:{port}/hook")
        scene.ack(scene.emit(168))
        page.goto("/ui/#/t/orders/spouts/shop")
        expect(page.get_by_text("100 dead letters loaded of 168; there may be more.")).to_be_visible()
        page.goto("/ui/#/t/orders/spouts/shop?error=answered")
        expect(page.get_by_text("To replay or discard those that match, load all of them first")).to_be_visible()
        page.get_by_role("region", name="Dead letters", exact=True).first.get_by_role("button", name="Load all").click()
        expect(page.get_by_text("All dead letters that match: 168.")).to_be_visible()
        page.route("**/dead-letters/discard", lambda route: route.continue_() if is_late(scene) else route.abort())
        confirm(page, "Discard 168", "168")
        expect(page.get_by_text("168 discarded.")).to_be_visible()
        left = scene.ask("GET", f"{scene.path}/spouts/shop/dead-letters")["dead_letters"]
        assert [letter["message_id"] for letter in left] == ["late-0"]


def is_late(scene: Scene) -> bool:
    """Let one more completion become a dead letter."""
    scene.ack(scene.emit(1, prefix="late-"))
    path = f"{scene.path}/spouts/shop/dead-letters?limit=1000"
    eventually_true(lambda: "late-0" in {each["message_id"] for each in scene.ask("GET", path)["dead_letters"]})
    return True


FORMULAS = ["=1+1", "+1", "-1", "@sum", "\t=1", 'a "quote", and more', "plain"]


def test_what_is_loaded_is_exported_and_no_cell_is_a_formula(page: Page, scene: Scene) -> None:
    for n, name in enumerate(FORMULAS):
        scene.fail(scene.emit(1, prefix=name), reason=f"reason {n}")
    page.goto(f"/ui/#/t/{scene.topology}/failures")
    expect(rows(page, "Failures")).to_have_count(len(FORMULAS))
    listed = scene.ask("GET", f"{scene.path}/failures")["failures"]
    assert json.loads(export(page, scene, "JSON")) == listed
    found = list(csv.DictReader(io.StringIO(export(page, scene, "CSV"), newline="")))
    assert [row["root_id"] for row in found] == [each["root_id"] for each in listed]
    shown = {row["message_id"] for row in found}
    assert shown == {"'=1+10", "'+10", "'-10", "'@sum0", "'\t=10", 'a "quote", and more0', "plain0"}
    assert [row["at_ms"] for row in found] == [str(each["at_ms"]) for each in listed]


def export(page: Page, scene: Scene, kind: str) -> str:
    """Press an export, and read the file that the browser keeps."""
    with page.expect_download() as kept:
        page.get_by_role("button", name=f"Export {kind}").click()
    assert kept.value.suggested_filename == f"failures-{scene.topology}.{kind.lower()}"
    return Path(kept.value.path()).read_bytes().decode()


def test_pending_roots_are_found_by_a_part_of_their_message_id(page: Page, scene: Scene) -> None:
    scene.emit(30)
    page.goto(f"/ui/#/t/{scene.topology}/roots")
    page.get_by_label("Message id or last component has").fill("order-2")
    page.get_by_role("search", name="Filter").get_by_role("button", name="Find").click()
    expect(page.get_by_text("All roots that match: 11")).to_be_visible()
    expect(page).to_have_url(re.compile("text=order-2"))
