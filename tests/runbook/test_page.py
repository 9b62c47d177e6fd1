"""docs/runbook.md: every block of an entry is run where its trouble is staged, and gives the answers shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runbook.test_doctor import PATIENCE_S, doctor
from tests.runbook.troubles import TROUBLES, Scene
from tests.support.pages import DOCS, compare, groups
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(400)

ENTRIES = {
    title.lower().replace(" ", "-"): text
    for title, text in re.findall(r"^## (.*)\n((?:(?!^## )[\s\S])*)", (DOCS / "runbook.md").read_text(), re.M)
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_an_entry_says_to_type_gives_what_it_shows(scenes: dict[str, Scene], trouble: str, tmp_path: Path) -> None:
    scene = scenes[trouble]
    eventually_true(lambda: trouble in doctor(scene.variables).stdout, within=PATIENCE_S)
    own = groups(ENTRIES[trouble])
    shown = [group for group in own if group.examples]
    assert shown
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    for group in shown:
        script = "\n".join(["set -eu", *group.examples["sh"]])
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=kept | scene.variables | {"PATH": path, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, (script, ran.stdout, ran.stderr)
        compare(group, ran.stdout)
