"""Records how ackers answer the requests to operations: `python -m tests.support.record_answers --help`."""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.integration.operations.operation_requests import documents, table
from tests.support.asking import Asked, Document, OverHttp, Row
from tests.support.servers import PROGRAM, acker_serve, valkey


def main() -> None:
    """Record what was asked for."""
    asked = _asked()
    rows = [row for row in table.ROWS if not asked.row or row.name in asked.row]
    if unknown := {*asked.row} - {row.name for row in rows}:
        sys.exit(f"there are no such rows: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder, _ackers(asked.python, Path(folder)) as ackers:
        answers, document = asyncio.run(_record(ackers, [] if asked.document else rows))
    if not asked.row:
        table.DOCUMENT.write_text(document)
    if not asked.document:
        table.ANSWERS.write_text(_written((table.read_answers() if asked.row else {}) | answers))


@contextlib.contextmanager
def _ackers(python: str, folder: Path) -> Iterator[Asked]:
    """Run the ackers of the table on a store of their own until the block is left."""
    keys_file, urls = table.write_keys(folder), dict[str, str]()
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(valkey(folder / "store"))
        for name, settings in table.ACKERS.items():
            options = [f"--{option.replace('_', '-')}={value}" for option, value in settings.items()]
            if name == table.KEYED:
                options.append(f"--keys-file={keys_file}")
            command = ("--role=api", f"--redis-url={store.url}", *options)
            acker = acker_serve(folder / name, *command, program=PROGRAM, python=python)
            urls[name] = stack.enter_context(acker).url
        yield Asked(urls, beside=table.BESIDE)


async def _record(ackers: Asked, rows: Sequence[Row]) -> tuple[dict[str, Document], str]:
    """Record the answers to rows, and the pieces of the document."""
    over_http, answers = OverHttp(ackers.urls), dict[str, Document]()
    await ackers.set_up(table.SET_UP)
    for row in rows:
        try:
            answers[row.name] = await ackers.ask(row, over_http)
        except Exception as error:
            error.add_note(f"in the row {row.name!r}")
            raise
    return answers, documents.written(await ackers.document("open"), await ackers.document(table.KEYED))


def _written(answers: dict[str, Document]) -> str:
    """Write the rows in the order of the table, each member of an answer on a line of its own."""
    order = [row.name for row in table.ROWS if row.name in answers]
    rows = [f"{json.dumps(name)}: {{\n{_members(answers[name])}\n}}" for name in order]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _members(answer: dict[str, Any]) -> str:
    members = [f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in answer.items()]
    return ",\n".join(members)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.record_answers",
        description="Starts ackers and a Valkey, asks the rows of tests/integration/operations/operation_requests, "
        "and writes answers.json and openapi.json there. Look through what has changed in them before it is committed.",
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has the acker to record; by default this one"
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--row", action="append", default=[], help="record this row only, by its name, and keep all others; repeatable"
    )
    part.add_argument("--document", action="store_true", help="record /openapi.json only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
