"""The reference leaves no route, code or setting out."""

import re
from collections.abc import Iterator

import pytest
from acker_protocol.errors import known
from acker_service.settings import Settings

from tests.support.declared import declared
from tests.support.pages import DOCS, LANGUAGES, groups

REFERENCE = DOCS / "reference"
PAGES = sorted(page.name for page in REFERENCE.glob("*.md"))


@pytest.fixture
def routes() -> dict[str, str]:
    """All routes of the service, and the scope that each needs."""
    found = [
        (f"{verb.upper()} {path}", it) for path, verbs in declared()["paths"].items() for verb, it in verbs.items()
    ]
    return {route: it["security"][0]["key"][0] if "security" in it else "none" for route, it in found}


def test_every_route_stands_in_the_table_of_addresses_with_its_scope(routes: dict[str, str]) -> None:
    told = {address: scope for address, scope, *_ in _table((REFERENCE / "README.md").read_text())}
    assert told == routes


def test_every_route_has_a_section_with_an_example_in_every_language(routes: dict[str, str]) -> None:
    sections = dict(section for page in PAGES for section in _sections((REFERENCE / page).read_text()))
    assert sections.keys() == routes.keys()
    assert [route for route, languages in sections.items() if languages != set(LANGUAGES)] == []


def test_every_code_stands_in_the_table_of_errors_with_its_status_and_whether_to_retry() -> None:
    rows = _table((REFERENCE / "errors.md").read_text())
    told = {code: (status, retry) for code, status, retry, *_ in rows}
    assert told == {code: (str(p.status), "yes" if p.retryable_by_default else "no") for code, p in known().items()}


def test_every_setting_stands_in_the_table_of_settings_with_its_default() -> None:
    rows = _table((REFERENCE / "settings.md").read_text())
    told = {name: default for name, default, *_ in rows if name.startswith("ACKER_")}
    fields = Settings.model_fields
    assert told.keys() == {f"ACKER_{name.upper()}" for name in fields}
    for name, field in fields.items():
        if isinstance(field.default, str | int | float):
            assert told[f"ACKER_{name.upper()}"] == (str(field.default).lower() or "none")


def _sections(text: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the routes that have a section of their own, and the languages in which it has examples."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        if route := re.match(r".*: `([A-Z]+ /.*)`\n", section):
            yield route[1], {language for group in groups(section) for language in group.examples}


def _table(text: str) -> list[list[str]]:
    """Read the rows whose first cell is code."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip("`") for cell in row] for row in rows]
