"""What acking adds to a job of Spark can be measured: next to nothing of it here, so that it does not rot."""

import pytest

from bench.__main__ import run
from bench.sizes import TINY
from tests.support.java import need_java


@pytest.mark.timeout(1_000)
def test_the_group_gives_lines_without_gaps() -> None:
    need_java()
    lines = run(["spark"], TINY)
    assert len({line.what for line in lines}) == len(lines) == 24
    for line in lines:
        assert len(line.measured.values) == len(line.base.values) == TINY.rounds
        assert line.measured.low > 0, line
        assert line.base.low > 0, line
