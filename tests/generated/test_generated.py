"""Generators make clients of the API's document that compile, call a real acker and get its errors."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.generated.tools import HERE, TIMEOUT_S, Tools, fetch
from tests.support.keys import keys_file
from tests.support.servers import acker_serve

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)

KEY = "admin"
PYTHON_CONFIG = "content_type_overrides: {application/vnd.acker.packed: application/octet-stream}\n"
"""Packed batches are bytes; without this the generator warns that it leaves them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """An acker that requires keys, and the document that it serves."""

    url: str
    document: Path


@pytest.fixture(scope="module")
def tools() -> Tools:
    return fetch()


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    folder = tmp_path_factory.mktemp("acker")
    arguments = ("--data-dir", str(folder / "data"), "--keys-file", str(keys_file(folder, KEY)))
    with acker_serve(folder, *arguments) as acker:
        document = folder / "openapi.json"
        document.write_bytes(acker.http.get("/openapi.json").content)
        yield Contract(url=acker.url, document=document)


def expected(root_id: str) -> list[str]:
    """What every client prints of its calls: the results, and the errors with their members."""
    return [
        "init pending",
        f"error 409 conflict false {root_id}",
        "batch 2 pending acked",
        "completion acked 42",
        "error 401 unauthorized false",
    ]


def test_redocly_finds_no_error_and_warns_of_unused_components_only(tools: Tools, contract: Contract) -> None:
    unused = ("--skip-rule", "no-unused-components")  # 404 and 405 of addresses that are no operation's
    told = tools.run("redocly", "lint", "--format", "json", *unused, contract.document, cwd=contract.document.parent)
    assert json.loads(told)["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}


def test_a_client_in_python(tools: Tools, contract: Contract, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PYTHON_CONFIG)
    options = (
        "--path",
        contract.document,
        "--config",
        "config.yaml",
        "--output-path",
        "generated",
        "--fail-on-warning",
    )
    tools.run("openapi-python-client", "generate", *options, cwd=tmp_path)
    shutil.copy(HERE / "python/call.py", tmp_path / "generated")
    tools.run("mypy", "--strict", "call.py", cwd=tmp_path / "generated")
    python = tools.folder / "venv/bin/python"
    told = tools.run(python, "call.py", contract.url, KEY, cwd=tmp_path / "generated")
    assert told.splitlines() == expected("5f2c1e0b9a7d4836")


def test_a_client_in_go(tools: Tools, contract: Contract, tmp_path: Path) -> None:
    shutil.copytree(HERE / "go", tmp_path, dirs_exist_ok=True)
    (tmp_path / "client").mkdir()
    options = ("-generate", "types,client", "-package", "client", "-o", "client/client.go", contract.document)
    tools.run("go", "tool", "oapi-codegen", *options, cwd=tmp_path)
    tools.run("go", "vet", "./...", cwd=tmp_path)
    told = tools.run("go", "run", ".", contract.url, KEY, cwd=tmp_path)
    assert told.splitlines() == expected("5f2c1e0b9a7d4837")


def test_a_client_in_typescript(tools: Tools, contract: Contract, tmp_path: Path) -> None:
    shutil.copy(HERE / "typescript/call.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(tools.folder / "node_modules")
    tools.run("openapi-typescript", contract.document, "-o", "schema.ts", cwd=tmp_path)
    tools.run(
        "tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "call.ts", cwd=tmp_path
    )
    told = tools.run("node", "call.js", contract.url, KEY, cwd=tmp_path)
    assert told.splitlines() == expected("5f2c1e0b9a7d4838")
