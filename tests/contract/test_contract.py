"""schemathesis against the document that a real acker serves, on a real port, with a real store."""

import json
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


def ask(document: Path, url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Let schemathesis ask the acker at this address all that it has to ask of what the document tells."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", str(document)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    options = ("--url", url, *options)
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=3_000
    )


def hold(folder: Path, scope: str | None, *options: str) -> None:
    """Hold an acker to its document: one without keys, or one that is shown a key of this scope.

    The document is handed over as a file: of the address that it comes from, schemathesis would ask nothing else.
    """
    keys = () if scope is None else ("--keys-file", str(keys_file(folder, *SCOPES)))
    shown = () if scope is None else ("--header", f"Authorization: Bearer {scope}")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *keys) as acker:
        document = folder / "openapi.json"
        document.write_bytes(acker.http.get("/openapi.json").content)
        held = ask(document, acker.url, *shown, *options)
        assert held.returncode == 0, f"{held.stdout}\n{held.stderr}\n{acker.log.read_text()}"
        assert f"Tested: {count(document)}\n" in held.stdout
        assert "Traceback" not in acker.log.read_text()


def count(document: Path) -> int:
    """How many endpoints a document tells of."""
    return sum(len(item) for item in json.loads(document.read_text())["paths"].values())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scope", [None, "admin"])
def test_an_acker_does_as_its_document_says(tmp_path: Path, scope: str | None) -> None:
    hold(tmp_path, scope, *FEW)


@pytest.mark.fuzz
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_an_acker_does_as_its_document_says_whatever_comes(tmp_path: Path, scope: str | None) -> None:
    hold(tmp_path, scope, *MANY)
