"""Every link of the site leads somewhere in it, and what is made of the programs is whole."""

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from acker_client._cli.main import all_commands

from docs.site.__main__ import navigation
from docs.site.generated import modules

REFERENCES = ("href", "src", "srcset")


@dataclass
class _Document(HTMLParser):
    """What a page has: the names that links lead to, and its links."""

    names: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as HTMLParser calls it
        given = {name: value for name, value in attrs if value}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in REFERENCES if name in given]


@pytest.fixture(scope="module")
def documents(html: Path) -> dict[str, _Document]:
    """All pages by their paths in the site."""
    found = {}
    for path in html.rglob("*.html"):
        document = _Document()
        document.feed(path.read_text())
        found[path.relative_to(html).as_posix()] = document
    return found


def broken(documents: dict[str, _Document], html: Path) -> list[tuple[str, str]]:
    """Return the links that lead nowhere, each behind its page."""
    return [
        (page, link)
        for page, document in documents.items()
        for link in document.links
        if page != "404.html" and "://" not in link and not link.startswith(("data:", "mailto:"))
        if not _leads_somewhere(page, link, documents, html)
    ]


def _leads_somewhere(page: str, link: str, documents: dict[str, _Document], html: Path) -> bool:
    path, _, name = link.partition("#")
    to = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    to = posixpath.normpath(f"{to}/index.html") if (html / to).is_dir() else to
    if not (html / to).is_file():
        return False
    return not name or to not in documents or name in documents[to].names


def test_no_link_is_broken(documents: dict[str, _Document], html: Path) -> None:
    assert len(documents) > 100
    assert broken(documents, html) == []


def test_a_broken_link_is_found(html: Path) -> None:
    page = _Document()
    page.feed('<a href="nowhere.html">1</a><a href="#nowhere">2</a><a href="#here" id="here">3</a>')
    assert broken({"index.html": page}, html) == [("index.html", "nowhere.html"), ("index.html", "#nowhere")]


def test_what_is_loaded_is_in_the_site(documents: dict[str, _Document]) -> None:
    """Links may lead elsewhere; scripts, styles, fonts and pictures may not."""
    loaded = {link for document in documents.values() for link in document.links if "//" in link}
    assert {link for link in loaded if not link.startswith("https://")} == set()
    assert [link for link in loaded if link.endswith((".js", ".css", ".woff2", ".png", ".svg"))] == []


def test_the_site_tells_programs_of_every_page(html: Path) -> None:
    told = (html / "llms.txt").read_text()
    assert [path for path in navigation() if f"]({path}): " not in told or not (html / path).is_file()] == []


def test_the_help_of_every_command_and_the_api_of_every_module_are_there(html: Path) -> None:
    helps = (html / "docs/reference/command-help.md").read_text()
    assert [name for name in all_commands() if f"\n## `acker {name}`\n" not in helps] == []
    assert "## `acker topology create`" in helps
    assert "## `acker key make`" in helps
    api = (html / "docs/reference/python-api.html").read_text()
    assert [module for module in modules() if f"<code>{module}</code>" not in api] == []
    for name in ("Acker", "AsyncAcker", "ReplayPolicy", "integrations.celery.track", "testing.MemoryAcker"):
        assert f'id="acker_client.{name}"' in api, name
    assert 'id="acker_spark.SparkAcker"' in api
