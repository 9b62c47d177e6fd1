"""What tracking adds to Dramatiq's tasks can be measured beside Dramatiq's groups: next to nothing of it here."""

from pathlib import Path

import pytest

from bench.__main__ import run
from bench.peers import install
from bench.sizes import TINY
from bench.table import Line


@pytest.mark.timeout(600)
def test_the_group_gives_lines_without_gaps() -> None:
    lines = [result for result in run(["peers"], TINY) if isinstance(result, Line)]
    assert lines
    assert len({line.what for line in lines}) == len(lines)
    for line in lines:
        assert len(line.measured.values) == len(line.base.values) == TINY.rounds
        assert line.measured.low > 0, line
        assert line.base.low > 0, line


def test_storm_is_built_once_and_again_when_its_sources_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[object] = []
    monkeypatch.setattr(install, "TOOLS", tmp_path)
    monkeypatch.setattr(install, "_program", lambda name: name)
    monkeypatch.setattr(install, "_run", lambda *command: built.append(command))
    folder = install.storm()
    assert install.storm() == folder
    assert len(built) == 1
    (folder / ".built").write_bytes(b"of other sources")
    install.storm()
    assert len(built) == 2
    assert (folder / "src/main/java/bench/Faults.java").exists()
