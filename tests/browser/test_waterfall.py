"""The tree of a traced root over time: its bars, its longest path, and a thousand edges by keyboard and on a phone."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import opened
from tests.browser.scene import Document, Scene, draw
from tests.browser.test_looks import NARROW, WIDE_TABLES, serious_faults
from tests.support.servers import AckerProcess

LAY_OUT = """async ([tree, now]) => {
    const {layOut, byComponent, unfinished} = await import('/ui/waterfall.js');
    const laid = layOut(tree, now);
    return {
        bars: laid.bars.map(({edge, level, begin_ms, end_ms}) => [edge.edge_id, level, begin_ms, end_ms]),
        path: laid.bars.filter((bar) => bar.is_on_path).map((bar) => bar.edge.edge_id),
        slowest: laid.bars.find((bar) => bar.is_slowest)?.edge.edge_id,
        ms: laid.path?.ms, components: byComponent(laid.bars),
        unfinished: unfinished(laid.bars).map((bar) => bar.edge.edge_id)};
}"""
FANOUT = 999


def edge(
    name: str, parent: str | None, sent: int | None, since: int, state: str = "acked", by: str | None = None
) -> Document:
    """An edge as the contract has it."""
    return {
        "edge_id": name, "parent": parent, "component": "spout", "state": state, "since_at_ms": since,
        "sent_at_ms": sent, "ended_by": by,
    }  # fmt: skip


def lay_out(page: Page, *edges: Document, now: int = 100, ended: int | None = None) -> dict[str, Any]:
    """Lay a tree out, as the page does."""
    page.goto("/ui/")
    return dict(page.evaluate(LAY_OUT, [{"edges": edges, "ended_at_ms": ended}, now]))


def test_a_bar_reaches_from_sent_to_acked_and_an_open_one_to_now(page: Page) -> None:
    laid = lay_out(page, edge("a", None, 10, 20), edge("b", "a", 20, 20, "open"), edge("c", "a", 20, 50))
    assert laid["bars"] == [["a", 1, 10, 20], ["b", 2, 20, 100], ["c", 2, 20, 50]]
    assert laid["path"] == ["a", "b"]
    assert laid["unfinished"] == ["a", "b"]


def test_an_edge_that_was_never_acked_reaches_to_the_end_of_its_root(page: Page) -> None:
    laid = lay_out(page, edge("a", None, 10, 20), edge("b", "a", 20, 20, "open"), ended=60)
    assert laid["bars"][1] == ["b", 2, 20, 60]


def test_the_longest_path_leads_from_the_edge_that_ended_last_to_the_root(page: Page) -> None:
    chain = [edge("a", None, 0, 10), edge("b", "a", 10, 70), edge("c", "b", 70, 80)]
    laid = lay_out(page, *chain, edge("d", None, 0, 79), edge("e", "a", 10, 60), ended=80)
    assert (laid["path"], laid["slowest"], laid["ms"]) == (["a", "b", "c"], "b", 80)


def test_of_several_open_edges_the_path_ends_at_the_one_that_began_first(page: Page) -> None:
    late = [edge("a", None, 30, 40), edge("b", "a", 40, 40, "open")]
    early = [edge("c", None, 0, 50), edge("d", "c", 50, 50, "open"), edge("e", "c", 45, 45, "open")]
    assert lay_out(page, *late, *early)["path"] == ["c", "e"]


def test_edges_whose_parent_or_sending_is_unknown_are_shown(page: Page) -> None:
    laid = lay_out(
        page, edge("a", "gone", 10, 30), edge("b", "a", None, 50), edge("x", "y", 5, 9), edge("y", "x", 5, 9), ended=50
    )
    assert laid["bars"] == [["a", 1, 10, 30], ["b", 2, 30, 50], ["x", 1, 5, 9], ["y", 2, 5, 9]]


def test_an_edge_that_was_acked_before_its_sending_came_has_no_length(page: Page) -> None:
    assert lay_out(page, edge("a", None, 30, 20), ended=40)["bars"] == [["a", 1, 30, 30]]


def test_times_by_component_are_of_what_ended_the_edges(page: Page) -> None:
    edges = [edge(f"{n}", None, 0, n, by="count") for n in range(1, 101)]
    laid = lay_out(page, *edges, edge("open", None, 0, 0, "open"), edge("s", None, 0, 7, by="split"))
    assert laid["components"] == [
        {"component": "count", "edges": 100, "p50_ms": 50, "p95_ms": 95, "p99_ms": 99, "most_ms": 100},
        {"component": "split", "edges": 1, "p50_ms": 7, "p95_ms": 7, "p99_ms": 7, "most_ms": 7},
    ]


def rows(page: Page) -> Locator:
    return page.get_by_role("tree", name="Edges over time").get_by_role("treeitem")


def grow(scene: Scene) -> str:
    """Emit a traced root of a thousand edges, of which one is open; give it."""
    scene.create(trace=1.0, message_timeout_ms=600_000)
    (root,) = scene.emit(1)
    children = [draw() for _ in range(FANOUT)]
    first = {"op": "ack", "root_id": root, "edge_id": scene.edges[root], "children": children, "component": "split"}
    scene.batch([first])
    scene.batch([{"op": "ack", "root_id": root, "edge_id": child, "component": "count"} for child in children[1:]])
    return root


def test_a_traced_tree_is_a_waterfall_with_the_component_in_front(page: Page, scene: Scene) -> None:
    scene.create(trace=1.0)
    (root,) = scene.emit(1)
    first = scene.edges[root]
    child = scene.split(root, component="reserve")
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    expect(rows(page)).to_have_count(2)
    top, below = rows(page).first, rows(page).last
    expect(top).to_contain_text("reserve")
    expect(top).to_contain_text("from shop")
    expect(top).to_have_attribute("data-edge", first)
    expect(below).to_contain_text("open for")
    expect(below).to_have_attribute("data-edge", child)
    assert [each.get_attribute("aria-level") for each in rows(page).all()] == ["1", "2"]
    expect(page.locator("#longest-path")).to_contain_text("over 2 edges")
    expect(page.locator("#longest-path")).to_contain_text("sent by reserve and not acked")
    scene.ack([root], component="charge")
    expect(below).to_contain_text("charge")
    expect(below).not_to_contain_text("open")
    expect(page.get_by_role("table", name="Time of the edges by component")).to_contain_text("charge")


def test_a_thousand_edges_are_one_stop_of_the_tab_key_and_read_with_the_arrows(page: Page, scene: Scene) -> None:
    root = grow(scene)
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    expect(rows(page)).to_have_count(1 + FANOUT)
    focused = "document.activeElement.dataset.edge"
    rows(page).first.focus()
    page.keyboard.press("ArrowDown")
    second = rows(page).nth(1).get_attribute("data-edge")
    assert page.evaluate(focused) == second
    expect(page.get_by_role("region", name="Chosen edge")).to_contain_text(str(second))
    page.keyboard.press("End")
    assert page.evaluate(focused) == rows(page).last.get_attribute("data-edge")
    page.keyboard.press("PageUp")
    assert page.evaluate(focused) == rows(page).nth(FANOUT - 10).get_attribute("data-edge")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused) == scene.edges[root]
    assert page.locator('[role=treeitem][tabindex="0"]').count() == 1
    page.keyboard.press("ArrowLeft")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(rows(page)).to_have_count(1 + FANOUT)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('[role=tree]')") is None


def test_of_a_thousand_edges_only_the_ways_to_open_ones_can_be_shown(page: Page, scene: Scene) -> None:
    root = grow(scene)
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    page.get_by_label("Only the ways to open and failed edges").check()
    expect(rows(page)).to_have_count(2)
    expect(rows(page).last).to_contain_text("open for")


@pytest.mark.parametrize("width", [1280, NARROW])
def test_a_thousand_edges_fit_their_window_and_axe_finds_no_serious_fault(
    browser: Browser, acker: AckerProcess, scene: Scene, width: int
) -> None:
    root = grow(scene)
    with opened(browser, acker.url, viewport={"width": width, "height": 800}, reduced_motion="reduce") as page:
        page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
        expect(rows(page)).to_have_count(1 + FANOUT)
        expect(rows(page).filter(has_text="slowest")).to_contain_text("open for")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDE_TABLES) == []
        wide = "[...document.querySelectorAll('.edge')].filter(each => each.scrollWidth > each.clientWidth).length"
        assert page.evaluate(wide) == 0
        assert page.evaluate(wide.replace(".edge", ".edge .took")) == 0
        assert serious_faults(page) == []
