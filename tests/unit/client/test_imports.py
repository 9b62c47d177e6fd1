"""Tests what the modules of the client import."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import acker_client
import pytest


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
import httpx2, sys
before = set(sys.modules)
import acker_client, acker_client.integrations.asgi, acker_client.integrations.httpx, acker_client.sources.offsets
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    own = {"acker_client", "acker_protocol"}
    brought_by_cython = {name for name in run.stdout.split() if name.startswith(("cython_runtime", "_cython_"))}
    assert set(run.stdout.split()) - brought_by_cython == own


def test_a_program_of_threads_does_not_import_asyncio():
    script = "import httpx2, sys; before = set(sys.modules); import acker_client; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"asyncio", "acker_client.asyncio.client"} & set(run.stdout.split())


@pytest.mark.parametrize(("source", "library"), [("nats", "nats"), ("redis_streams", "redis")])
def test_a_source_without_its_library_says_what_to_install(source: str, library: str):
    script = f"import sys; sys.modules[{library!r}] = None; import acker_client.sources.{source}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"install acker-client with its extra, acker-client[{library}]" in run.stderr.splitlines()[-1]
