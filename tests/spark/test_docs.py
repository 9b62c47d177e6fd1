"""What the page about Spark (docs/spark.md) shows is what happens, in the session of the tests."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import ADDRESS
from tests.support.pages import DOCS, compare, groups
from tests.support.servers import acker_serve, free_port

pytestmark = pytest.mark.timeout(400)


def test_the_page_about_spark_works_when_pasted(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    text = (DOCS / "spark.md").read_text().partition("\n")[2]
    options = ("--store-port", str(free_port()), "--callback-allow-hosts", "127.0.0.1")
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *options) as process:
        here = {ADDRESS: process.url, "6379": options[1], "8701": str(free_port())}
        for group in groups(text):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                for code in group.examples.get("python", []):
                    exec(compile(_led(code, here), "spark.md", "exec"), names)
            if group.answer:
                compare(group, printed.getvalue())
        spark.streams.removeListener(names["listener"])
        for name in ("acker", "rows_acker", "told_acker", "hook_acker"):
            names[name].close()


def _led(code: str, here: dict[str, str]) -> str:
    """Put in all at once: what was put in may look like another that is shown."""
    return re.sub("|".join(map(re.escape, here)), lambda shown: here[shown[0]], code)
