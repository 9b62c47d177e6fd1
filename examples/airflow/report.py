"""Builds the report of an hour from the files that have landed, as dbt does: each model is a query, and a table.

``python report.py FOLDER HOUR`` needs the standard library only. It may run again: it writes the same report.
"""

import csv
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

MODELS = Path(__file__).parent / "models"


def build(folder: Path, hour: str) -> None:
    """Load the sales of the hour, run all models, and write ``reports/HOUR.json``."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        database.execute("CREATE TABLE sales (shop TEXT, product TEXT, pieces INTEGER, cents INTEGER)")
        for landed in sorted((folder / "landed" / hour).glob("*.csv")):
            with landed.open(newline="") as lines:
                database.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", csv.reader(lines))
        report = {model.stem: run_model(database, model) for model in sorted(MODELS.glob("*.sql"))}
    written = folder / "reports" / f"{hour}.json"
    written.parent.mkdir(exist_ok=True)
    unfinished = written.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(report, indent=1))
    unfinished.replace(written)


def run_model(database: sqlite3.Connection, model: Path) -> list[dict[str, object]]:
    """Make a table of a model; give its rows."""
    database.execute(f"CREATE TABLE {model.stem} AS {model.read_text()}")
    return [dict(row) for row in database.execute(f"SELECT * FROM {model.stem}")]


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2])
