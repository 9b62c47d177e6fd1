"""What the page about Spark (docs/spark.md) shows is what happens, in the session of the tests."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import ADDRESS
from tests.support.pages import DOCS, compare, groups
from tests.support.servers import acker_serve

pytestmark = pytest.mark.timeout(400)


def test_the_page_about_spark_works_when_pasted(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    text = (DOCS / "spark.md").read_text().partition("\n")[2]
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as process:
        for group in groups(text):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                for code in group.examples.get("python", []):
                    exec(compile(code.replace(ADDRESS, process.url), "spark.md", "exec"), names)
            if group.answer:
                compare(group, printed.getvalue())
        spark.streams.removeListener(names["listener"])
        for name in ("acker", "rows_acker"):
            names[name].close()
