"""The page for everybody: by keyboard, on a phone, in the dark, read aloud; and what it loads."""

import hashlib
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.support.ports import free_port
from tests.browser.conftest import opened
from tests.browser.scene import Scene, draw
from tests.browser.screenshots import reduced
from tests.support.servers import AckerProcess

Scheme = Literal["dark", "light"]

VENDOR = Path(__file__).with_name("vendor")
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""axe-core 4.14.1, axe.min.js."""
SERIOUS = {"serious", "critical"}
NARROW = 390
WIDE_TABLES = """[...document.querySelectorAll('.scroll')]
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.ariaLabel)"""
"""The tables that have to be scrolled sideways."""
VIEWS = {
    "overview": "",
    "topology": "t/{topology}",
    "roots": "t/{topology}/roots",
    "root": "t/{topology}/roots/{root}",
    "waterfall": "t/{topology}/roots/{root}",
    "failures": "t/{topology}/failures",
    "spout-tasks": "t/{topology}/spouts",
    "spout-task": "t/{topology}/spouts/shop",
    "callback": "t/{topology}/spouts/hook",
    "find": "find?id=order-1",
    "system": "system",
    "audit": "audit",
    "runbook": "runbook/webhook-not-delivered",
    "try-it": "try",
}
WITHOUT_TABLE = {"root", "waterfall", "callback", "runbook", "try-it"}


@pytest.fixture(scope="module")
def staged(acker: AckerProcess) -> Scene:
    """A topology with roots in each state, and a webhook that cannot be reached."""
    Scene(acker.http, "invoices").create(message_timeout_ms=600_000).emit(3)
    scene = Scene(acker.http, "orders").create(message_timeout_ms=600_000, trace=1.0)
    roots = scene.emit(60)
    scene.ack(roots[20:50])
    scene.fail(roots[50:57])
    scene.fail(roots[57:], reason="no stock", component="reserve")
    grow(scene, roots[0])
    scene.register("hook", f"http://127.0.0.1:{free_port()}/completions")
    scene.ack(scene.emit(2, spout_task="hook", prefix="hook-"))
    scene.ask("POST", f"{scene.path}/roots/{roots[1]}/fail", {"reason": "lost in the night"})
    return scene


def grow(scene: Scene, root: str) -> None:
    """Let a root have a tree of four steps, of which one is open."""
    for component, children in (("split", 4), ("price", 2), ("reserve", 2), ("pack", 0)):
        edges = [draw() for _ in range(children)]
        ack = {"op": "ack", "root_id": root, "edge_id": scene.edges[root], "children": edges, "component": component}
        scene.batch([ack])
        others = [{"op": "ack", "root_id": root, "edge_id": edge, "component": "notify"} for edge in edges[2:]]
        scene.batch(others)
        scene.edges[root] = edges[0] if edges else scene.edges[root]


def show(page: Page, scene: Scene, view: str) -> None:
    """Show a view, and wait until it has drawn what it loads."""
    root = next(iter(scene.edges))
    page.goto(f"/ui/#/{VIEWS[view].format(topology=scene.topology, root=root)}")
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("main > div > :first-child")).to_have_role("heading")
    if view not in WITHOUT_TABLE:
        page.get_by_role("table").first.wait_for()
    if view == "overview":
        expect(page.locator("#trouble")).to_contain_text("the webhook of orders/hook")
        expect(page.locator('[data-label="Acked/s"]').last).to_have_text(re.compile(r"\d"))
    if view == "topology":
        scene.ack(scene.emit(20))
        expect(page.locator(".chart").first).to_have_attribute("data-points", re.compile(r"^([4-9]|\d{2,})$"))
    if view == "root":
        page.locator(".squares").wait_for()
    if view == "waterfall":
        page.get_by_role("tree", name="Edges over time").wait_for()
        page.get_by_role("region", name="Tree").evaluate("each => each.scrollIntoView()")
        page.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    if view == "callback":
        expect(page.get_by_role("region", name="Callback")).to_contain_text("no connection")
    if view == "runbook":
        page.locator("#entry").wait_for()
    if view == "try-it":
        page.get_by_role("combobox").select_option(scene.topology)
        page.get_by_role("button", name="Emit a root").click()
        page.get_by_role("button", name="Split in 2").click()
        page.get_by_role("button", name="Ack", exact=True).first.click()
        expect(page.locator("#toy-state")).to_contain_text("pending")
        expect(page.locator(".squares")).not_to_have_attribute("data-lit", "0")


def serious_faults(page: Page) -> list[tuple[str, list[str]]]:
    """The serious faults that axe finds in a page as it stands: the rule, and the elements that break it."""
    page.evaluate((VENDOR / "axe.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found if each["impact"] in SERIOUS]


def test_what_others_wrote_is_as_it_was_published() -> None:
    assert hashlib.sha256((VENDOR / "axe.js").read_bytes()).hexdigest() == AXE_SHA256


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Page, staged: Scene, view: str, scheme: Scheme) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    show(page, staged, view)
    assert serious_faults(page) == []


def test_axe_finds_no_serious_fault_while_an_act_is_confirmed(page: Page, staged: Scene) -> None:
    show(page, staged, "root")
    page.get_by_role("button", name="Fail root").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious_faults(page) == []


def test_axe_finds_what_is_wrong(page: Page, staged: Scene) -> None:
    show(page, staged, "overview")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [rule for rule, _ in serious_faults(page)] == ["button-name"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_view_fits_its_window(
    browser: Browser, acker: AckerProcess, staged: Scene, shots: Path, width: int, scheme: Scheme
) -> None:
    size = {"width": width, "height": 800}
    with (
        opened(browser, acker.url, viewport=size, color_scheme=scheme, reduced_motion="reduce") as page,
        browser.new_page() as canvas,
    ):
        for view in VIEWS:
            show(page, staged, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            assert width > NARROW or page.evaluate(WIDE_TABLES) == [], view
            (shots / f"{view}-{width}-{scheme}.png").write_bytes(reduced(canvas, page.screenshot()))


def press_until(page: Page, key: str, name: str) -> None:
    """Press a key until what has the focus bears this name."""
    for _ in range(60):
        page.keyboard.press(key)
        focused = "(document.activeElement.ariaLabel || document.activeElement.innerText || '').trim()"
        if page.evaluate(focused) == name:
            return
    raise AssertionError(f"{key} never leads to {name}")


def test_a_root_is_found_and_failed_with_the_keyboard_alone(page: Page, scene: Scene) -> None:
    root = scene.emit(3)[1]
    page.goto("/ui/")
    expect(page.get_by_role("link", name=scene.topology).first).to_be_visible()
    press_until(page, "Tab", "To the content")
    page.keyboard.press("Enter")
    press_until(page, "Tab", scene.topology)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(scene.topology)
    press_until(page, "Tab", "Roots")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=root)).to_be_visible()
    press_until(page, "Tab", root)
    page.keyboard.press("Enter")
    expect(page.locator("#root-state")).to_have_text("pending")
    press_until(page, "Tab", f"Fail root {root}")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("fail")
    page.keyboard.press("Enter")
    expect(page.locator("#root-state")).to_have_text("failed")
    assert [each["root_id"] for each in scene.completions()] == [root]
