"""How many edges of a root failed is read, and shown before the reason, where the service says it."""

from collections.abc import Sequence
from typing import Any

import pytest
from acker_client._cli.lists import failure_rows
from acker_client._cli.mailboxes import completion_rows
from acker_client.failures import _failure

LISTED: dict[str, Any] = {
    "root_id": "00000000000000a1",
    "message_id": "rows.csv",
    "spout_task": "imports",
    "outcome": "failed",
    "reason": "no price",
    "component": "save",
    "at_ms": 1_700_000_000_000,
}
READ = LISTED | {"complete_latency_ms": 2_000}
NAME = "FAILURES"

counts = pytest.mark.parametrize(("fields", "failures"), [({"failures": 3}, 3), ({"failures": None}, None), ({}, None)])


def shown(lines: Sequence[str]) -> str:
    """Return what the one row of a table has between the component and the reason."""
    heads, row = lines
    assert heads.index("COMPONENT") < heads.index(NAME) < heads.index("REASON")
    at = heads.index(NAME)
    return row[at : at + len(NAME)].strip()


@counts
def test_a_failure_has_the_number_of_edges_that_failed(fields: dict[str, Any], failures: int | None) -> None:
    assert _failure(LISTED | fields).failures == failures


@counts
def test_a_failure_is_shown_with_that_number(fields: dict[str, Any], failures: int | None) -> None:
    assert shown(failure_rows([LISTED | fields])) == str(failures or "-")


@counts
@pytest.mark.parametrize("dead", [False, True])
def test_a_completion_and_a_dead_letter_are_shown_with_that_number(
    fields: dict[str, Any], failures: int | None, *, dead: bool
) -> None:
    more = {"attempts": 5, "error": "503"} if dead else {}
    assert shown(completion_rows([READ | fields | more], dead=dead)) == str(failures or "-")
