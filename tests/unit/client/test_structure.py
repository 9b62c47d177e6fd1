"""Tests the structure of the client: its modules, their size and their imports."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import acker_client
import pytest
from acker_client.asyncio import client as async_client
from acker_client.asyncio import driver as async_driver
from acker_client.asyncio import spout as async_spout
from acker_client.sync import client, driver, spout


def lines(module) -> list[str]:
    """The lines of a module that say something: no arguments of functions, since a signature shows its defaults."""
    text = Path(module.__file__).read_text(encoding="utf-8")
    silent = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            silent |= set(range(node.lineno + 1, node.body[0].lineno))
        if isinstance(node, ast.Call) and all(same_name(keyword) for keyword in node.keywords):
            silent |= {keyword.value.lineno for keyword in node.keywords if keyword.value.lineno > node.lineno}
    numbered = enumerate(text.splitlines(), 1)
    return [line.strip() for number, line in numbered if line.strip() and number not in silent]


def same_name(keyword: ast.keyword) -> bool:
    """Whether an argument is passed on under its own name."""
    return isinstance(keyword.value, ast.Name) and keyword.value.id == keyword.arg


@pytest.mark.parametrize(
    "twins",
    [(client, async_client), (driver, async_driver), (spout, async_spout)],
    ids=lambda twins: twins[0].__name__,
)
def test_sync_and_async_share_no_run_of_six_lines(twins):
    runs = [{tuple(own[at : at + 6]) for at in range(len(own) - 5)} for own in map(lines, twins)]
    assert runs[0] & runs[1] == set()


def test_a_file_of_the_client_has_300_lines_at_most():
    for path in Path(acker_client.__file__).parent.glob("**/*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path


def test_the_client_has_14_public_modules_at_most():
    folder = Path(acker_client.__file__).parent
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert len({name for name in names if not name.startswith("_")}) <= 14


def imported(path: Path) -> set[str]:
    """The modules of the client that a file imports, be it only for its types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return {name for name in found if name.startswith("acker_client.")}


def test_the_modules_of_the_client_import_one_way_even_for_their_types():
    folder = Path(acker_client.__file__).parent
    modules = {".".join(("acker_client", *path.relative_to(folder).with_suffix("").parts)): path
             for path in folder.glob("**/*.py") if path.name != "__init__.py"}  # fmt: skip
    order = list(TopologicalSorter({name: imported(path) for name, path in modules.items()}).static_order())
    assert order.index("acker_client._core.spouts") < order.index("acker_client._core.replay")


def test_importing_the_client_with_all_its_modules_imports_httpx_and_nothing_else_of_weight():
    script = """
import httpx, sys
before = set(sys.modules)
import acker_client, acker_client.integrations.asgi, acker_client.integrations.httpx, acker_client.sources.offsets
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"acker_client", "acker_protocol"}


def test_a_program_of_threads_does_not_import_asyncio():
    script = "import httpx, sys; before = set(sys.modules); import acker_client; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"asyncio", "acker_client.asyncio.client"} & set(run.stdout.split())
