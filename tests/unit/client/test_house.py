"""Tests that the client keeps the rules of its house."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import acker_client
import pytest
from acker_client import aio, loop_driver, loop_spouts, sync, thread_driver, thread_spouts


def lines(module) -> list[str]:
    """The lines of a module that say something."""
    text = Path(module.__file__).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "twins",
    [(sync, aio), (thread_driver, loop_driver), (thread_spouts, loop_spouts)],
    ids=lambda twins: twins[0].__name__,
)
def test_sync_and_async_share_no_run_of_six_lines(twins):
    runs = [{tuple(own[at : at + 6]) for at in range(len(own) - 5)} for own in map(lines, twins)]
    assert runs[0] & runs[1] == set()


def test_a_file_of_the_client_has_200_lines_at_most():
    for path in Path(acker_client.__file__).parent.glob("**/*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 200, path


def imported(path: Path) -> set[str]:
    """The rooms of the client that a file imports, be it only for its types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return {name for name in found if name.startswith("acker_client.")}


def test_the_rooms_of_the_client_import_one_way_even_for_their_types():
    house = Path(acker_client.__file__).parent
    rooms = {".".join(("acker_client", *path.relative_to(house).with_suffix("").parts)): path
             for path in house.glob("**/*.py") if path.name != "__init__.py"}  # fmt: skip
    order = list(TopologicalSorter({name: imported(path) for name, path in rooms.items()}).static_order())
    assert order.index("acker_client.emitting") < order.index("acker_client.replaying")


def test_importing_the_client_with_all_its_rooms_imports_httpx_and_nothing_else_of_weight():
    script = """
import httpx, sys
before = set(sys.modules)
import acker_client, acker_client.asgi, acker_client.hooks, acker_client.offsets
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"acker_client", "acker_protocol"}


def test_a_program_of_threads_does_not_import_asyncio():
    script = "import httpx, sys; before = set(sys.modules); import acker_client; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"asyncio", "acker_client.aio"} & set(run.stdout.split())
