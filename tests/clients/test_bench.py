"""What acks cost in the clients of other languages is measured, beside Python's in the same run."""

import pytest

from bench import goals, languages, table
from bench.__main__ import run
from bench.sizes import TINY
from bench.table import Line, Skipped
from tests.conformance.programs import LANGUAGES

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("package")]


def test_each_client_that_can_be_built_has_its_figures_and_each_other_says_what_it_needs() -> None:
    results = {row.what: row for row in table.rows(run([languages.GROUP], TINY))}
    for goal in goals.goals(TINY):
        if goal.group != languages.GROUP:
            continue
        row, language = results[goal.line], LANGUAGES[goal.line.split()[1].lower()]
        if language.missing:
            assert isinstance(row, Skipped)
            assert language.missing[0] in row.why
            continue
        assert isinstance(row, Line)
        assert len(row.measured.values) == len(row.base.values) == TINY.rounds
        assert min(row.measured.low, row.base.low) > 0
