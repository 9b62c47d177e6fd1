"""What the page about Spark (docs/spark.md) shows is what happens: it is one program, and may be run again."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.session import JVM
from tests.support.examples import ADDRESS
from tests.support.java import need_java
from tests.support.pages import DOCS, Group, compare, groups
from tests.support.servers import AckerProcess, acker_serve, free_port

pytestmark = pytest.mark.timeout(600)

SMALL = f"--driver-memory 1g --conf spark.ui.enabled=false --conf 'spark.driver.extraJavaOptions={JVM}' pyspark-shell"
"""A Spark that starts soon."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """The page as one file, for an acker that runs."""
    need_java()
    options = ("--store-port", str(free_port()), "--callback-allow-hosts", "127.0.0.1")
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *options) as process:
        file = tmp_path / "page.py"
        file.write_text(_led(process, options[1]))
        yield file


def test_the_page_about_spark_works_when_pasted_and_a_second_time(program: Path) -> None:
    shown = "\n".join(group.answer for group in _groups() if group.answer)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, program], env=_unactivated(), capture_output=True, text=True, timeout=290, check=False
        )
        assert done.returncode == 0, done.stderr
        compare(Group(answer=shown), done.stdout)
        assert "Py4JException" not in done.stderr, done.stderr


def _groups() -> list[Group]:
    return groups((DOCS / "spark.md").read_text().partition("\n")[2])


def _led(process: AckerProcess, store_port: str) -> str:
    code = "\n".join(block for group in _groups() for block in group.examples.get("python", []))
    return _put_in(code, {ADDRESS: process.url, "6379": store_port, "8701": str(free_port())})


def _put_in(code: str, here: dict[str, str]) -> str:
    """Put in all at once: what was put in may look like another that is shown."""
    return re.sub("|".join(map(re.escape, here)), lambda shown: here[shown[0]], code)


def _unactivated() -> dict[str, str]:
    """The environment of a shell in which no virtual environment is active."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != here)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "VIRTUAL_ENV"))}
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": SMALL}
