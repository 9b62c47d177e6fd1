"""Tests which form of the hot path is found: compiled only where it was made of the very sources that stand here."""

import subprocess
import sys
from pathlib import Path

import pytest
from acker_client._core import hot_path_form
from acker_client._core.hot_path_form import FOLDER, SOURCES, compiled_folder, form_of, search_path

CORE = Path(hot_path_form.__file__).parent


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A copy of the sources."""
    for name in SOURCES:
        (tmp_path / name).write_bytes((CORE / name).read_bytes())
    return tmp_path


def test_without_anything_compiled_only_the_sources_are_searched(core: Path) -> None:
    assert search_path(str(core)) == [str(core)]


def test_what_was_compiled_of_these_sources_is_found_first(core: Path) -> None:
    folder = compiled_folder(str(core))
    Path(folder).mkdir(parents=True)
    assert search_path(str(core)) == [folder, str(core)]


@pytest.mark.parametrize("name", SOURCES)
def test_what_was_compiled_of_other_sources_is_never_found(core: Path, name: str) -> None:
    stale = Path(compiled_folder(str(core)))
    stale.mkdir(parents=True)
    with (core / name).open("a") as source:
        source.write("\n# changed\n")
    assert str(stale) not in search_path(str(core))


def test_text_that_moves_from_one_source_to_the_next_makes_other_sources(core: Path) -> None:
    before = compiled_folder(str(core))
    first, second = (core / name for name in SOURCES[:2])
    text = first.read_bytes()
    first.write_bytes(text[:-1])
    second.write_bytes(text[-1:] + second.read_bytes())
    assert compiled_folder(str(core)) != before


def test_a_program_without_the_sources_runs_what_it_has(core: Path) -> None:
    (core / FOLDER).mkdir()
    (core / SOURCES[-1]).unlink()
    assert search_path(str(core)) == [str(core)]


def test_every_type_that_the_compiler_is_given_is_one_of_the_sources() -> None:
    assert {file.name for file in CORE.glob("*.pxd")} == {name for name in SOURCES if name.endswith(".pxd")}


def test_a_module_of_python_is_interpreted() -> None:
    assert form_of(hot_path_form) == "interpreted"


def test_a_compiled_form_that_cannot_be_loaded_here_is_left_out(core: Path) -> None:
    """One of another Python or platform has another name, so the sources are run."""
    folder = Path(compiled_folder(str(core)))
    folder.mkdir(parents=True)
    (folder / "hot_path.cpython-27-elsewhere.so").write_bytes(b"no library")
    script = (
        "import sys, acker_client._core as core\n"
        f"core.__path__ = {[str(folder), str(CORE)]}\n"
        "sys.modules.pop('acker_client._core.hot_path')\n"
        "from importlib import import_module\n"
        "print(import_module('acker_client._core.hot_path').__file__)\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == str(CORE / "hot_path.py")
