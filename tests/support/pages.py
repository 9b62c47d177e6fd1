"""Reads a page of the documentation: its examples by language, and the answers it shows.

A page is groups: examples, then the answer that all of them are shown to give. A block that is not run like that says
so in the line above: ``<!-- tested by PATH -->`` names the test that reads it, ``<!-- not run: REASON -->`` why there
is none. As the first line of a page ``tested by`` holds for all of it: that test runs it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READMES = tuple(
    ROOT / folder / "README.md"
    for folder in (
        *(".", "bench", "client", "client/typescript", "client/go", "client/java", "service", "spark_connector"),
    )
)
PAGES = (*READMES, ROOT / "CONTRIBUTING.md", ROOT / "RELEASING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md")))

MARK = re.compile(r"<!-- (?:tested by (?P<test>\S+)|not run: (?P<reason>\S.*)) -->")

LANGUAGES = ("sh", "python", "js")
ANSWERS = ("json", "text")

ANY = "…"
"""Stands in a shown answer for any text."""

FIRST = "README.md#before-the-examples"
"""Where a page of the reference leads to the lines that its examples need."""

VARYING = frozenset(
    {
        "at_ms",
        "deadline_at_ms",
        "age_ms",
        "complete_latency_ms",
        "took_ms",
        "last_ack_at_ms",
        "since_at_ms",
        "sent_at_ms",
        "scanned",
    }
    | {"oldest_unread_at_ms", "last_read_at_ms", "last_emit_at_ms"}
    | {"started_at_ms", "now_ms", "seen_at_ms", "pid", "used_bytes", "remembered_bytes", "connections", "step_ms"}
)
"""Fields of an answer whose number is another each time."""


@dataclass(slots=True, kw_only=True)
class Group:
    """Examples by language, and the answer they give; ``line`` is where the answer stands."""

    examples: dict[str, list[str]] = field(default_factory=dict)
    answer: str = ""
    kind: str = "text"
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block of a page, as it stands there; ``line`` counts from 1, ``mark`` is the line above it."""

    language: str
    code: str
    line: int
    mark: str

    @property
    def marked(self) -> bool:
        """Whether it says that it is not run here."""
        return MARK.fullmatch(self.mark) is not None


def fences(text: str) -> Iterator[Fence]:
    """Find the fenced blocks of a page. Whatever else renders as one is a fault: it would not be run."""
    lines = enumerate(text.splitlines(), start=1)
    above = ""
    for number, line in lines:
        if not line.lstrip(" >").startswith(("```", "~~~")):
            above = line
            continue
        opening = re.fullmatch(r"```(\w*)", line)
        assert opening, f"line {number}: {line!r} opens a block that is not run"
        code = []
        for _, inner in lines:
            if inner == "```":
                break
            code.append(inner)
        else:
            raise AssertionError(f"line {number}: the block does not end")
        yield Fence(language=opening[1], code="\n".join(code), line=number, mark=above)
        above = ""


def groups(text: str) -> list[Group]:
    """Read a page. Every block must be of a language that is run, an answer to examples before it, or marked."""
    found = [Group()]
    for fence in fences(text):
        group = found[-1]
        if fence.marked:
            continue
        if fence.language in LANGUAGES:
            group.examples.setdefault(fence.language, []).append(fence.code)
            continue
        assert fence.language in ANSWERS, f"line {fence.line}: {fence.language or 'a block of no language'} is not run"
        assert group.examples, f"line {fence.line}: an answer to no example"
        group.answer, group.kind, group.line = fence.code, fence.language, fence.line
        found.append(Group())
    return found


def runnable(page: Path) -> str:
    """Return the text of a page with, in front of it, the lines that it tells its reader to paste first."""
    text = page.read_text()
    if f"]({FIRST})" not in text:
        return text
    name, _, _ = FIRST.partition("#")
    _, _, section = (page.parent / name).read_text().partition("\n## Before the examples\n")
    return section.partition("\n## ")[0] + "\n" + text


def languages(page: Path) -> list[str]:
    """Return the languages in which a page has examples; none where a test of its own runs it."""
    text = page.read_text()
    if MARK.fullmatch(text.partition("\n")[0]):
        return []
    used = {language for group in groups(text) for language in group.examples}
    return [language for language in LANGUAGES if language in used]


def own_tests(text: str) -> list[str]:
    """Return the tests that a page says read it, or a block of it."""
    return [mark["test"] for mark in map(MARK.fullmatch, text.splitlines()) if mark and mark["test"]]


def own_block(page: str, test: str) -> str:
    """Return the block of a page in docs that names a test, by the file of the test, as the one that runs it."""
    mark = f"<!-- tested by {Path(test).relative_to(ROOT)} -->"
    [code] = [fence.code for fence in fences((DOCS / page).read_text()) if fence.mark == mark]
    return code


def compare(group: Group, came: str) -> None:
    """Compare an answer that came with the one shown."""
    shown: Any = _values(group.answer) if group.kind == "json" else group.answer.splitlines()
    real: Any = _values(came) if group.kind == "json" else came.splitlines()
    filled = _filled(shown, real)
    assert real == filled, f"line {group.line} shows\n{pformat(filled)}\nbut this came\n{pformat(real)}"


def _values(text: str) -> list[Any]:
    """Read JSON values, one behind the other."""
    decoder, values, rest = json.JSONDecoder(), list[Any](), text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def _filled(shown: Any, real: Any, name: str = "") -> Any:
    """Return what is shown, with that filled in which is another each time."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return {key: _filled(value, real.get(key), key) for key, value in shown.items()}
    if isinstance(shown, list) and isinstance(real, list) and len(shown) == len(real):
        return [_filled(one, other) for one, other in zip(shown, real, strict=True)]
    if isinstance(shown, str) and isinstance(real, str) and ANY in shown:
        pattern = ".*".join(re.escape(part) for part in shown.split(ANY))
        return real if re.fullmatch(pattern, real, re.DOTALL) else shown
    if name in VARYING and type(shown) is int and type(real) is int and real >= 0:
        return real
    return shown
