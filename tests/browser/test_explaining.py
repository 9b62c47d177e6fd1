"""What the page explains: trouble with its entry of the runbook, the tree of a root, and the acker itself."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.scene import Scene
from tests.support.pages import DOCS
from tests.support.servers import AckerProcess


def test_trouble_comes_first_and_leads_to_its_place_and_to_its_entry_of_the_runbook(page: Page, scene: Scene) -> None:
    scene.register("hook", "https://receiver.example/hook")
    scene.ask("POST", f"{scene.path}/spouts/hook/pause")
    page.goto("/ui/")
    parts = page.locator("main h1, #trouble, main table")
    expect(page.locator("#trouble")).to_be_visible()
    expect(page.get_by_role("table")).to_be_visible()
    assert parts.evaluate_all("parts => parts.map(each => each.tagName)") == ["H1", "SECTION", "TABLE"]
    found = page.locator("#trouble li").filter(has_text=f"the webhook of {scene.topology}/hook is paused")
    expect(found.locator("code")).to_have_text(f"acker webhook resume {scene.topology} hook")
    found.get_by_role("link", name="Runbook: webhook not delivered").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhook not delivered")
    expect(page.locator("#entry")).to_contain_text("Do not discard dead letters to silence the alert")
    page.go_back()
    found.get_by_role("link", name="is paused").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("link", name="Topologies").click()
    expect(found).to_have_count(0)


def test_each_rule_of_doctor_has_an_entry_of_the_runbook(page: Page) -> None:
    page.goto("/ui/#/runbook")
    entries = page.get_by_role("main").get_by_role("link")
    expect(entries).to_have_count((DOCS / "runbook.md").read_text().count("\n## "))
    for name in entries.all_inner_texts():
        page.get_by_role("main").get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator("#entry")).to_contain_text("You see")


def test_the_system_is_shown_as_the_status_has_it(page: Page, acker: AckerProcess) -> None:
    status = acker.http.get("/v1/status").json()
    page.goto("/ui/#/system")
    settings = page.get_by_role("table", name="Settings").get_by_role("row")
    expect(settings).to_have_count(1 + len(status["settings"]))
    row = settings.filter(has_text="ACKER_CALLBACK_ALLOW_CIDRS")
    expect(row).to_contain_text("127.0.0.0/8")
    expect(row).to_contain_text("option")
    processes = page.get_by_role("table", name="Processes seen in the last ten seconds").get_by_role("row")
    expect(processes.filter(has_text=str(acker.process.pid))).to_have_count(1)
    expect(page.get_by_role("region", name="Store", exact=True)).to_contain_text(status["store"]["server"])


def test_the_tree_of_a_traced_root_shows_the_open_edge_and_what_made_it(page: Page, scene: Scene) -> None:
    scene.create(trace=1.0)
    (root,) = scene.emit(1)
    first = scene.edges[root]
    child = scene.split(root, component="reserve")
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    tree = page.get_by_role("region", name="Tree")
    expect(page.locator("#open-edges")).to_contain_text("1 of 2 edges are open, made by reserve")
    edges = tree.get_by_role("treeitem")
    expect(edges.filter(has_text=child)).to_contain_text("open")
    expect(edges.filter(has_text=first)).to_contain_text("reserve")
    scene.ack([root])
    expect(page.locator("#open-edges")).to_contain_text("0 of 2 edges are open")


def test_of_a_root_that_is_not_traced_the_page_says_who_acked_last(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    scene.split(root, component="reserve")
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    expect(page.locator("#untraced")).to_contain_text("1 are open, and reserve acked last")


def test_what_the_page_gives_to_copy_shows_the_same_root(page: Page, scene: Scene) -> None:
    (root,) = scene.emit(1)
    page.goto(f"/ui/#/t/{scene.topology}/roots/{root}")
    elsewhere = page.get_by_role("region", name="Elsewhere").locator("pre")
    expect(elsewhere).to_have_count(3)
    command, curl, python = elsewhere.all_inner_texts()
    name, *arguments = shlex.split(command)
    program = Path(sys.executable).with_name(name)
    assert json.loads(run([str(program), *arguments, "-o", "json"]))["message_id"] == "order-0"
    assert json.loads(run(["bash", "-c", f"{curl} -sS"]))["message_id"] == "order-0"
    assert "order-0" in run([sys.executable, "-c", python])


def run(command: list[str]) -> str:
    """Run a command that has to succeed; give what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
