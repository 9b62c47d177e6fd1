"""Rules that comments in the source state, each with the statement below it."""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("client/src", "service/src")
_RULE = re.compile(r"^ *(?:--|#) rule: (.+)$")
_COMMENT = re.compile(r"^ *(?:--|#)")
_CLOSING = re.compile(r"^ *(?:end\b|[)\]}])")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Where the statement of a rule stands: a file, and lines of it, from ``start`` up to ``stop``, counted from 0."""

    path: str
    start: int
    stop: int

    def __str__(self) -> str:
        """The place as an editor opens it."""
        return f"{self.path}:{self.start + 1}"


class Rules:
    """The rules of some files, by their words."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines = {path: text.splitlines() for path, text in texts.items()}
        self._statements: dict[str, list[Statement]] = {}
        for path, lines in self._lines.items():
            for at, line in enumerate(lines):
                if found := _RULE.match(line):
                    self._statements.setdefault(found[1], []).append(_statement_below(path, lines, at))

    @property
    def words(self) -> set[str]:
        """What the rules say."""
        return set(self._statements)

    def statement(self, rule: str) -> Statement:
        """Return the statement below the one comment that states a rule."""
        found = self._statements.get(rule, [])
        assert found, (
            f"no comment states the rule: {rule}; write `-- rule: {rule}` (`# rule:` in Python) above the statement "
            "that implements it, or let the mutant name the rule that stands there now"
        )
        places = ", ".join(str(statement) for statement in found)
        assert len(found) == 1, f"the rule stands {len(found)} times ({places}), give each its own words: {rule}"
        return found[0]

    def broken(self, rule: str, old: str | None, new: str) -> str:
        """Return the text of a rule's file with a fragment of the statement replaced, all of the statement for None.

        The fragment is written as if the statement began at the left, and had no rules within.
        """
        place = self.statement(rule)
        lines = self._lines[place.path]
        statement = [line for line in lines[place.start : place.stop] if not _RULE.match(line)]
        indent = statement[0][: _indent(statement[0])]
        text = textwrap.dedent("\n".join(statement))
        times = 1 if old is None else text.count(old)
        assert times == 1, (
            f"{old!r} stands {times} times in the statement at {place}, and has to stand there once; "
            f"the statement is the one below the rule: {rule}"
        )
        replaced = new if old is None else text.replace(old, new)
        instead = textwrap.indent(replaced, indent).splitlines() if replaced.strip() else []
        return "\n".join([*lines[: place.start], *instead, *lines[place.stop :], ""])


def source_texts() -> dict[str, str]:
    """Return the text of each file of client and service in which a rule may stand, by its path in the repository."""
    paths = [path for source in SOURCES for kind in ("*.lua", "*.py") for path in (ROOT / source).rglob(kind)]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


@cache
def rules_of_the_source() -> Rules:
    """Return the rules that the source states, read once."""
    return Rules(source_texts())


def _statement_below(path: str, lines: list[str], at: int) -> Statement:
    """Return the statement below a comment: a line, what is indented deeper below it, and the line that closes it."""
    start = at + 1
    while start < len(lines) and _COMMENT.match(lines[start]):
        start += 1
    assert "".join(lines[start : start + 1]).strip(), f"no statement stands below the rule at {path}:{at + 1}"
    indent, stop = _indent(lines[start]), start + 1
    for below in range(stop, len(lines)):
        if lines[below].strip() and _indent(lines[below]) <= indent:
            if _indent(lines[below]) == indent and _CLOSING.match(lines[below]):
                stop = below + 1
            break
        if lines[below].strip():
            stop = below + 1
    return Statement(path=path, start=start, stop=stop)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
