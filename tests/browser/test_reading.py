"""What the page shows is what was sent; a root is found and explained."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PATIENCE_MS
from tests.browser.scene import Scene

COUNTS = ("Pending", "Unread", "Acked", "Failed", "Timed out")


def shown(page: Page, topology: str, column: str) -> Locator:
    """A cell of a topology's row in the overview."""
    row = page.get_by_role("table", name="Topologies").get_by_role("row").filter(has_text=topology)
    return row.locator(f'[data-label="{column}"]')


def test_counts_shown_equal_counts_sent(page: Page, scene: Scene) -> None:
    roots = scene.emit(1_200)
    scene.ack(roots[:1_000])
    scene.fail(roots[1_000:1_030])
    page.goto("/ui/")
    expect(shown(page, scene.topology, "Pending")).to_have_text("170")
    assert [shown(page, scene.topology, each).inner_text() for each in COUNTS] == ["170", "1,030", "1,000", "30", "0"]
    scene.ack(roots[1_030:])
    expect(shown(page, scene.topology, "Acked")).to_have_text("1,170")
    expect(shown(page, scene.topology, "Acked/s")).not_to_have_text("0.0")


def test_a_chart_moves(page: Page, scene: Scene) -> None:
    page.goto(f"/ui/#/t/{scene.topology}")
    chart = page.get_by_role("img", name=re.compile("Pending and unread"))
    expect(chart).to_have_attribute("data-last", "pending 0, unread 0")
    scene.emit(7)
    expect(chart).to_have_attribute("data-last", "pending 7, unread 0")
    before = page.locator(".chart canvas").nth(1).screenshot()
    scene.ack(scene.emit(40))
    expect(chart).to_have_attribute("data-last", "pending 7, unread 40")
    assert page.locator(".chart canvas").nth(1).screenshot() != before


def test_the_history_of_a_topology_outlives_the_page(page: Page, scene: Scene) -> None:
    scene.ack(scene.emit(40))
    scene.fail(scene.emit(2))
    page.goto("/ui/")
    expect(shown(page, scene.topology, "p99")).to_have_text(re.compile(r"\d"), timeout=2 * PATIENCE_MS)
    page.goto(f"/ui/#/t/{scene.topology}")
    latency = page.get_by_role("img", name=re.compile("Complete latency"))
    expect(latency).not_to_have_attribute("data-points", "0")
    page.get_by_role("button", name="3 h").click()
    expect(page.get_by_role("button", name="3 h")).to_have_attribute("aria-pressed", "true")
    expect(latency).not_to_have_attribute("data-points", "0")
    page.get_by_role("button", name="All time").click()
    totals = page.get_by_role("region", name="Over time").locator(".tiles")
    expect(totals).to_contain_text(re.compile(r"Emitted\s*42\s*Acked\s*40\s*Failed\s*2"))


def test_a_stuck_root_is_found_by_its_message_id_and_explained_in_three_clicks(page: Page, scene: Scene) -> None:
    stuck = scene.emit(59)[42]
    scene.split(stuck, component="reserve")
    page.goto("/ui/")
    page.get_by_role("searchbox", name="Root id or message id").fill("order-42")
    page.get_by_role("search", name="Find").get_by_role("button", name="Find").click()
    page.get_by_role("row").filter(has_text=scene.topology).get_by_role("link", name=stuck).click()
    expect(page.locator("#root-state")).to_have_text("pending")
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("order-42")
    expect(facts).to_contain_text("reserve")
    lit = scene.edges[stuck]
    expect(page.locator(".squares")).to_have_attribute("data-lit", str(int(lit, 16).bit_count()))


def test_the_squares_of_a_root_go_out_as_it_is_acked(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    expect(page.locator("#root-state")).to_have_text("pending")
    child = scene.split(root)
    expect(page.locator(".squares")).to_have_attribute("data-lit", str(int(child, 16).bit_count()))
    scene.ack([root])
    expect(page.locator("#root-state")).to_have_text("acked")


def test_filters_find_roots_and_pages_go_on_among_ten_thousand(page: Page, scene: Scene) -> None:
    roots = scene.emit(10_000)
    late = scene.emit(1, spout_task="other", prefix="late-")[0]
    page.goto(f"/ui/#/t/{scene.topology}/roots")
    rows = page.get_by_role("table", name="Pending roots").get_by_role("row")
    expect(rows).to_have_count(101)
    first = set(page.locator("td .id").all_inner_texts())
    page.get_by_role("button", name="Load more").click()
    expect(rows).to_have_count(201)
    assert first < set(page.locator("td .id").all_inner_texts()) < {*roots, late}
    page.get_by_label("Spout task", exact=True).fill("other")
    page.get_by_role("search", name="Filter").get_by_role("button", name="Find").click()
    expect(page.get_by_role("link", name=late)).to_be_visible()
    expect(rows).to_have_count(2)


def test_a_topology_groups_its_failures_by_component_and_reason(page: Page, scene: Scene) -> None:
    roots = scene.emit(9)
    scene.fail(roots[:6], reason="card declined", component="charge")
    scene.fail(roots[6:], reason="no stock", component="reserve")
    page.goto(f"/ui/#/t/{scene.topology}")
    rows = page.get_by_role("table", name="Failures by component and reason").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("card declined")
    assert [text.split("\t")[:4] for text in rows.all_inner_texts()[1:]] == [
        ["charge", "card declined", "failed", "6"],
        ["reserve", "no stock", "failed", "3"],
    ]
    rows.nth(2).get_by_role("link", name="reserve").click()
    failures = page.get_by_role("table", name="Failures").get_by_role("row")
    expect(failures).to_have_count(4)
    expect(failures.filter(has_text="no stock")).to_have_count(3)
