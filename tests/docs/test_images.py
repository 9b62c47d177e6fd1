"""The committed drawings are what their program makes, and the pages show all of them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.images.drawings import DRAWINGS
from docs.images.recording import Line, render
from tests.support.pages import DOCS, PAGES

IMAGES = DOCS / "images"
LARGEST_BYTES = 100_000


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_committed_drawing_is_what_its_program_makes(name: str) -> None:
    assert (IMAGES / f"{name}.svg").read_text() == DRAWINGS[name]().render(), "run: python -m docs.images"


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_an_image_is_small_well_formed_and_says_what_it_shows(path: Path) -> None:
    text = path.read_text()
    assert len(text) < LARGEST_BYTES
    title = ElementTree.fromstring(text).find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text


def test_every_image_is_shown_on_a_page_and_every_image_shown_exists() -> None:
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", page.read_text())
    }
    assert shown == set(IMAGES.glob("*.svg"))


def test_the_recording_shows_a_real_run_that_proved_itself() -> None:
    recorded = (IMAGES / "demo.svg").read_text()
    assert "$ make demo" in recorded
    assert "All of it is proven." in recorded
    assert "killed with SIGKILL" in recorded
    assert "WRONG" not in recorded


def test_a_recording_shows_each_line_at_its_time_and_escapes_it() -> None:
    drawn = render([Line(at_s=0, text="$ make demo"), Line(at_s=6, text="a < b")])
    assert ">a &lt; b</text>" in drawn
    assert "@keyframes l1{0%{opacity:0}33.3%,100%{opacity:1}}" in drawn


def test_each_screenshot_is_shown_and_all_are_small() -> None:
    shots = set((IMAGES / "ui").glob("*.png"))
    shown = re.findall(r'(?:src|srcset)="([^"]+\.png)"', (DOCS / "ui.md").read_text())
    assert {DOCS / path for path in shown} == shots, "make test-browser makes them: pytest tests/browser --screenshots"
    assert sum(shot.stat().st_size for shot in shots) < 2_000_000
