"""pytest finds the fixtures of acker-client in any project in whose environment it is installed."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from acker_client import testing

from tests.support.pages import DOCS, fences

PROJECT = """
import pytest
from acker_client import UsageError


def emit(acker, message_id):
    with acker.acker(linger=0) as client:
        with client.shared_spout("orders").emit(message_id=message_id) as root:
            headers = root.headers()
        with client.receive(headers, component="charge") as tup:
            pending = tup.headers()
    return pending


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_acker(acker, attempt):
    assert not acker.roots
    emit(acker, "42")
    assert acker.completions("orders") == []


def test_its_clock_is_moved_by_hand(acker, acker_clock):
    emit(acker, "42")
    acker_clock.advance(31)
    assert acker.completions("orders") == ["42"]


@pytest.mark.acker("orders", message_timeout=5)
class TestMarked:
    def test_the_mark_of_a_class_configures_it(self, acker, acker_clock):
        emit(acker, "42")
        acker_clock.advance(6)
        assert (acker.topology, acker.completions("orders")) == ("orders", ["42"])

    @pytest.mark.acker(max_spout_pending=1)
    def test_the_mark_of_a_test_goes_before(self, acker):
        assert (acker.topology, acker.store.max_spout_pending) == ("default", 1)
"""


def run_pytest(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_project_uses_the_fixtures_without_further_ado(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    (tmp_path / "test_page.py").write_text(the_block_of_the_page())
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    run = run_pytest(tmp_path, "-q")
    assert run.returncode == 0, run.stdout
    assert "6 passed" in run.stdout


def the_block_of_the_page() -> str:
    blocks = fences((DOCS / "python.md").read_text())
    return next(block.code for block in blocks if Path(__file__).name in block.mark)


def test_a_project_may_have_a_fixture_of_the_same_name(tmp_path: Path) -> None:
    own = "import pytest\n@pytest.fixture\ndef acker():\n    return 1\n\ndef test_it(acker):\n    assert acker == 1\n"
    (tmp_path / "test_own.py").write_text(own)
    run = run_pytest(tmp_path, "-q")
    assert run.returncode == 0, run.stdout


def test_it_is_an_entry_point_and_imports_no_httpx() -> None:
    [found] = entry_points(group="pytest11", name="acker")
    assert found.value == "acker_client.testing.pytest_plugin"
    program = f"import pytest, sys; import {found.value}; print('httpx' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"


def test_the_package_of_the_plugin_offers_its_names_lazily() -> None:
    assert all(hasattr(testing, name) for name in testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        testing.nothing  # noqa: B018
