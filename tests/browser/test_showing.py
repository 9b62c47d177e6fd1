"""How the page shows things: titles, times, what can be copied, what is said once, words that need no explanation."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS, opened
from tests.browser.scene import Scene
from tests.browser.test_explaining import run
from tests.browser.test_looks import NARROW, Scheme, serious_faults
from tests.support.servers import AckerProcess, acker_serve
from tests.support.waiting import eventually_true

BERLIN = {"timezone_id": "Europe/Berlin", "locale": "en-US"}
TEMPLATE = "https://shop.example/orders/{message_id}?from=acker"


def test_each_view_has_a_title_of_its_own(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    for path, title in {
        "": "Topologies",
        f"t/{scene.topology}": scene.topology,
        f"t/{scene.topology}/failures": f"Failures of {scene.topology}",
        f"t/{scene.topology}/roots/{root}": f"Root {root}",
        f"t/{scene.topology}/spouts/shop": f"Spout task shop of {scene.topology}",
        "find?id=order-0": "Find order-0",
        "runbook/store-full": "Store full",
    }.items():
        page.goto(f"/ui/#/{path}")
        expect(page).to_have_title(f"{title} - Acker")


@pytest.mark.parametrize("view", ["", "/roots", "/failures", "/spouts", "/spouts/shop", "/roots/00000000000000a1"])
def test_that_a_topology_is_unknown_is_said_once(page: Page, view: str) -> None:
    page.goto(f"/ui/#/t/nobody{view}")
    expect(page.get_by_role("heading", level=1)).to_have_text("No topology nobody")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("alert")).to_contain_text("There is no topology nobody")


def test_a_topology_that_is_created_meanwhile_is_shown(page: Page, acker: AckerProcess) -> None:
    page.goto("/ui/#/t/made-later")
    expect(page.get_by_role("alert")).to_have_count(1)
    Scene(acker.http, "made-later").create()
    expect(page.get_by_role("heading", level=1)).to_have_text("made-later")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_times_are_those_of_the_reader_with_utc_beside_them(browser: Browser, scene: Scene) -> None:
    scene.fail(scene.emit(1))
    [failure] = scene.ask("GET", f"{scene.path}/failures")["failures"]
    with opened(browser, str(scene.http.base_url), **BERLIN) as page:
        page.goto(f"/ui/#/t/{scene.topology}/failures")
        shown = page.locator("td time")
        expect(shown).to_contain_text("UTC")
        script = "ms => new Date(ms).toLocaleTimeString('en-GB', {timeZone: 'Europe/Berlin'})"
        expect(shown).to_contain_text(page.evaluate(script, failure["at_ms"]))
        expect(shown.locator(".utc")).to_contain_text(  # behind its date, where that is another than in Berlin
            page.evaluate("ms => `${new Date(ms).toISOString().slice(11, 19)} UTC`", failure["at_ms"])
        )


@pytest.mark.parametrize(
    ("at", "zone", "parts"),
    [
        ("2026-01-15T08:00:00Z", "Europe/Berlin", ["2026-01-15 09:00:00", "08:00:00 UTC"]),
        ("2026-01-15T23:30:00Z", "Europe/Berlin", ["2026-01-16 00:30:00", "2026-01-15 23:30:00 UTC"]),
        ("2026-07-15T08:00:00Z", "America/St_Johns", ["2026-07-15 05:30:00", "08:00:00 UTC"]),
        ("2026-01-15T08:00:00Z", "UTC", ["2026-01-15 08:00:00 UTC", ""]),
    ],
)
def test_utc_has_its_date_where_that_is_another(
    browser: Browser, acker: AckerProcess, at: str, zone: str, parts: list[str]
) -> None:
    with opened(browser, acker.url, timezone_id=zone) as page:
        page.goto("/ui/")
        script = "async at => (await import('/ui/format.js')).timeParts(Date.parse(at))"
        assert page.evaluate(script, at) == parts


def test_ids_and_lines_are_copied(browser: Browser, scene: Scene) -> None:
    (root,) = scene.emit(1)
    permissions = ["clipboard-read", "clipboard-write"]
    with opened(browser, str(scene.http.base_url), permissions=permissions) as page:
        page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
        for what, text in {
            "the root id": root,
            "the message id": "order-0",
            "the lines for curl": page.get_by_label("curl", exact=True).inner_text(),
        }.items():
            page.get_by_role("button", name=f"Copy {what}").click()
            expect(page.get_by_text("Copied").last).to_be_visible()
            assert page.evaluate("navigator.clipboard.readText()") == text


def test_where_the_browser_does_not_let_it_copy_the_page_says_so(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    page.get_by_role("button", name="Copy the root id").click()
    expect(page.get_by_text("The browser does not let this page copy")).to_be_visible()


def test_the_search_says_that_it_is_exact(page: Page, scene: Scene) -> None:
    scene.emit(1)
    page.goto("/ui/#/find?id=order")
    expect(page.get_by_text("Looked for exactly as it is written")).to_be_visible()
    expect(page.get_by_text("Not found: nothing has exactly this id")).to_be_visible()


def test_ages_and_deadlines_of_listed_roots_go_on_by_one_clock(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    scene.split(root)
    page.goto(f"/ui/#/t/{scene.topology}/roots")
    row = page.get_by_role("row").filter(has_text=root)
    cells = [row.locator(f'[data-label="{name}"]') for name in ("Age", "Last ack", "Deadline in")]
    expect(cells[0]).to_be_visible()
    before = [cell.inner_text() for cell in cells]
    for cell, text in zip(cells, before, strict=True):
        expect(cell).not_to_have_text(text)


def test_percentiles_are_three_and_legends_have_values_at_rest(page: Page, scene: Scene) -> None:
    scene.ack(scene.emit(40))
    page.goto("/ui/")
    row = page.get_by_role("row").filter(has_text=scene.topology)
    for name in ("p50", "p95", "p99"):
        expect(row.locator(f'[data-label="{name}"]')).to_have_text(re.compile(r"\d"), timeout=2 * PATIENCE_MS)
    page.goto(f"/ui/#/t/{scene.topology}")
    latency = page.locator(".chart").last
    expect(latency).to_have_attribute("data-points", re.compile(r"[1-9]"))
    expect(latency.locator(".u-series")).to_have_count(4)
    for value in latency.locator(".u-value").all():
        expect(value).to_have_text(re.compile(r"\d"))


def test_a_range_of_one_s_own_is_in_the_address(page: Page, scene: Scene) -> None:
    scene.ack(scene.emit(4))
    page.goto(f"/ui/#/t/{scene.topology}")
    page.get_by_role("button", name="3 h").click()
    expect(page).to_have_url(re.compile(r"\?window=3h$"))
    page.go_back()
    expect(page.get_by_role("button", name="10 min")).to_have_attribute("aria-pressed", "true")
    page.goto(f"/ui/#/t/{scene.topology}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
    expect(page.get_by_text("0 points of 12 min each")).to_be_visible()
    expect(page.get_by_label("From")).to_have_value(re.compile("2020-01-01T"))


def test_three_troubles_of_one_rule_are_one_card_that_folds(page: Page, scene: Scene) -> None:
    for n in range(3):
        scene.register(f"hook-{n}", "https://receiver.example/hook")
        scene.ask("POST", f"{scene.path}/spouts/hook-{n}/pause")
    page.goto("/ui/")
    card = page.locator("#trouble li").filter(has_text="Webhook not delivered")
    expect(card).to_have_count(1)
    expect(card.locator("summary")).to_contain_text("3 findings")
    third = card.get_by_role("link", name=f"the webhook of {scene.topology}/hook-2 is paused")
    expect(third).to_be_hidden()
    card.locator("summary").click()
    expect(third).to_be_visible()
    expect(card.get_by_role("link", name="Runbook: webhook not delivered")).to_have_count(1)
    card.locator("summary").press("Enter")
    expect(third).to_be_hidden()


def test_the_overview_shows_which_topology_gets_slower(page: Page, scene: Scene) -> None:
    """A root that ends at once, then one that takes two seconds: the line of the 95th percentile rises."""
    scene.ack(scene.emit(1))
    page.goto("/ui/")
    row = page.get_by_role("row").filter(has_text=scene.topology)
    slower = row.get_by_role("img", name="95th percentile of the complete latency, over ten minutes")
    expect(slower).to_have_attribute("data-top", re.compile(r"\d"))
    (root,) = scene.emit(1)
    eventually_true(lambda: scene.ask("GET", f"{scene.path}/roots/{root}")["age_ms"] > 2_000)
    scene.ack([root])

    def heights() -> list[float]:
        line = slower.locator("polyline").get_attribute("points") or ""
        return [float(point.partition(",")[2]) for point in line.split()]

    eventually_true(lambda: len(heights()) > 1 and heights()[0] - heights()[-1] > 10)


def test_a_fresh_acker_shows_how_to_send_the_first_message(browser: Browser, tmp_path: Path) -> None:
    with (
        acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker,
        opened(browser, acker.url) as page,
    ):
        page.goto("/ui/")
        first = page.get_by_role("region", name="Send your first message")
        lines = first.locator("pre")
        expect(lines).to_contain_text("curl -X POST")
        curl = lines.inner_text()
        first.get_by_role("button", name="TypeScript").click()
        expect(lines).to_contain_text('import { Acker } from "acker-client"')
        first.get_by_role("button", name="Python").click()
        expect(lines).to_contain_text("from acker_client import Acker")
        assert run([sys.executable, "-c", lines.inner_text()]) == "hello\n"
        expect(first).to_have_count(0)
        subprocess.run(["bash", "-c", f"set -e\n{curl}"], check=True, capture_output=True, timeout=60)
        row = page.get_by_role("row").filter(has_text="default")
        expect(row.locator('[data-label="Acked"]')).to_have_text("2")


def test_a_message_id_leads_to_the_user_s_own_system(browser: Browser, tmp_path: Path) -> None:
    name = "a/b?c=d&e #{message_id}<i>"
    with (
        acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--message-url", TEMPLATE) as acker,
        opened(browser, acker.url) as page,
    ):
        scene = Scene(acker.http, "orders").create()
        (root,) = scene.emit(1, prefix=name)
        page.goto(f"/ui/#/t/orders/roots/{root}")
        link = page.get_by_role("link", name=f"{name}0")
        expect(link).to_have_attribute("href", f"https://shop.example/orders/{quote(f'{name}0', safe='')}?from=acker")
        expect(link).to_have_attribute("rel", "noopener noreferrer")
        page.goto("/ui/#/t/orders/roots")
        expect(page.get_by_role("link", name=f"{name}0")).to_be_visible()


def test_without_a_template_a_message_id_is_no_link(page: Page, scene: Scene) -> None:
    scene.emit(1)
    page.goto(f"/ui/#/t/{scene.topology}/roots")
    expect(page.get_by_text("order-0")).to_be_visible()
    expect(page.get_by_role("link", name="order-0")).to_have_count(0)


def test_words_of_the_inside_are_not_shown(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    main = page.get_by_role("main")
    for path, words, instead in (
        (f"t/{scene.topology}", ("Dropped", "Unbalanced"), "Acked more often than sent"),
        (f"t/{scene.topology}/spouts", ("reads by itself",), "a process reads its completions"),
        (f"t/{scene.topology}/roots/{root}", ("named once",), "XOR of the ids of all open edges"),
    ):
        page.goto(f"/ui/#/{path}")
        expect(main).to_contain_text(instead)
        for word in words:
            expect(main).not_to_contain_text(word)


def test_pending_roots_by_age_say_how_many_were_counted(page: Page, scene: Scene) -> None:
    scene.emit(30)
    page.goto(f"/ui/#/t/{scene.topology}")
    expect(page.locator("#counted")).to_have_text("All 30 pending roots were counted.")
    table = page.get_by_role("table", name="Pending by age")
    expect(table.get_by_role("row")).to_have_count(6)
    sample = {"topology": scene.topology, "pending": 50_000, "counted": 500, "is_sample": True}
    sample["ages"] = [{"from_ms": 0, "to_ms": 1_000, "roots": 400}, {"from_ms": 1_000, "to_ms": None, "roots": 100}]
    page.route("**/ages", lambda route: route.fulfill(json=sample))
    page.reload()
    expect(page.locator("#counted")).to_have_text("A sample: 500 of 50,000 pending roots, drawn by lot.")
    expect(table.get_by_role("row").nth(1)).to_contain_text("about 40,000")


def test_a_topology_shows_how_long_its_components_take(page: Page, scene: Scene) -> None:
    page.goto(f"/ui/#/t/{scene.topology}")
    times = page.get_by_role("region", name="Time by component", exact=True).first
    expect(times).to_contain_text("No root is traced")
    scene.create(trace=1.0)
    scene.ack(scene.emit(7), component="charge")
    page.reload()
    expect(times).to_contain_text("Of the 7 roots that were traced last")
    row = page.get_by_role("table", name="Time by component").get_by_role("row").last
    expect(row).to_contain_text("charge")
    expect(row.locator('[data-label="p95"]')).to_have_text(re.compile(r"\d"))


@pytest.mark.parametrize("width", [1280, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_fresh_acker_and_one_with_folded_trouble_fit_and_have_no_serious_fault(
    browser: Browser, tmp_path: Path, width: int, scheme: Scheme
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}
    with (
        acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker,
        opened(browser, acker.url, **options) as page,
    ):
        page.goto("/ui/")
        expect(page.locator("#first-message pre")).to_be_visible()
        for shown in (page.locator("#first-message"), page.locator("#trouble summary")):
            expect(shown).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert serious_faults(page) == []
            scene = Scene(acker.http, "orders").create()
            for n in range(3):
                scene.register(f"hook-{n}", "https://receiver.example/hook")
                scene.ask("POST", f"{scene.path}/spouts/hook-{n}/pause")
            page.reload()
