"""schemathesis against the document that a real acker serves, on a real port, with a real store."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.keys import SCOPES, keys_file
from tests.support.servers import acker_serve

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "tests/contract/schemathesis.toml"
FEW, MANY = ("--seed", "1", "--max-examples", "8"), ("--max-examples", "300")


def ask(url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Let schemathesis ask all that it has to ask of the acker at this address."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", f"{url}/openapi.json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=3_000
    )


def hold(folder: Path, scope: str | None, *options: str) -> None:
    """Hold an acker to its document: one without keys, or one that is shown a key of this scope."""
    keys = () if scope is None else ("--keys-file", str(keys_file(folder, *SCOPES)))
    shown = () if scope is None else ("--header", f"Authorization: Bearer {scope}")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *keys) as acker:
        held = ask(acker.url, *shown, *options)
        assert held.returncode == 0, f"{held.stdout}\n{held.stderr}\n{acker.log.read_text()}"
        assert "No issues found" in held.stdout
        assert "Traceback" not in acker.log.read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scope", [None, "admin"])
def test_an_acker_does_as_its_document_says(tmp_path: Path, scope: str | None) -> None:
    hold(tmp_path, scope, *FEW)


@pytest.mark.fuzz
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_an_acker_does_as_its_document_says_whatever_comes(tmp_path: Path, scope: str | None) -> None:
    hold(tmp_path, scope, *MANY)
