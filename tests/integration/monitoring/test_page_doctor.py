"""The page's rules of `doctor` find what the cases say, as those of the command line do."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import acker_service.web
import pytest

from tests.support.programs import needed
from tests.unit.client.cli.test_doctor_rules import CASES, merged

BASE = json.loads((Path(__file__).parents[2] / "support/doctor_cases.json").read_text())["base"]
DOCTOR = Path(acker_service.web.__file__).with_name("doctor.js")
PROGRAM = """
import {{ judge }} from {module};
import {{ readFileSync }} from "node:fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(judge)));
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the rules find in each case, by its name."""
    node = needed("node")
    folder = tmp_path_factory.mktemp("doctor")
    shutil.copy(DOCTOR, folder / "doctor.mjs")
    program = folder / "judge.mjs"
    program.write_text(PROGRAM.format(module=json.dumps("./doctor.mjs")))
    documents = [merged(BASE, case["changes"]) for case in CASES.values()]
    done = subprocess.run(
        [node, program], input=json.dumps(documents), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_rules_of_the_page_find_what_the_cases_say(name: str, found: dict[str, Any]) -> None:
    assert found[name] == CASES[name]["findings"]
