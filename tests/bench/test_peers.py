"""What tracking adds to Dramatiq's tasks can be measured beside Dramatiq's groups: next to nothing of it here."""

import pytest

from bench.__main__ import run
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
