"""What a command prints: tables for people, the contract's own documents for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from acker_protocol.terminal import printable

from acker_client._cli.parsing import print_line

GAP = "  "


class Form(Enum):
    """How a command prints: ``-o``."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a command has found.

    ``document`` is for ``-o json``, ``items`` one a line for ``-o jsonl`` (None: the document), ``lines`` for people,
    ``notes`` go to stderr in any form.
    """

    document: Any
    items: Sequence[Any] | None = None
    lines: Sequence[str]
    notes: Sequence[str] = ()
    exit_code: int = 0

    def print(self, form: Form) -> None:
        """Print it."""
        for line in self._written(form):
            print_line(line)
        sys.stdout.flush()
        for note in self.notes:
            print_line(f"acker: {note}", file=sys.stderr)

    def _written(self, form: Form) -> Iterable[str]:
        if form is Form.TABLE:
            return self.lines
        if form is Form.JSON:
            return [to_json(self.document)]
        return map(to_json, [self.document] if self.items is None else self.items)


def to_json(document: Any) -> str:
    """Write a document in one line; what is not printable is escaped, so that programs read it as it was."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, none: str = "none") -> list[str]:
    """Lay rows out below the names of their columns, numbers to the right; ``none`` where there are no rows."""
    values = [list(row) for row in rows]
    if not values:
        return [none]
    cells = [[_cell(value) for value in row] for row in values]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    numeric = [all(map(_is_number, column)) for column in zip(*values, strict=True)]
    return [_line(row, widths, numeric) for row in [list(columns), *cells]]


def pairs(values: Iterable[tuple[str, Any]]) -> list[str]:
    """Lay names and values out, a pair a line."""
    shown = [(name, _cell(value)) for name, value in values]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"{name:{width}}{GAP}{value}" for name, value in shown]


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f}" if isinstance(value, float) else printable(str(value))


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or missing: an id is a text, also where it has digits only."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = zip(row, widths, numeric, strict=True)
    return GAP.join(f"{cell:>{width}}" if right else f"{cell:{width}}" for cell, width, right in cells).rstrip()


def more(document: Mapping[str, Any], listed: Sequence[Any], limit: int) -> list[str]:
    """Say that a list was cut: else its length is taken for the number of all."""
    return (
        []
        if document.get("cursor") is None or len(listed) < limit
        else [f"there may be more than these {limit}: --limit shows more"]
    )
