"""The names on Spark: one throws and is run again alone, one fails and its message is replayed."""

import re

import pytest

from tests.support.java import need_java
from tests.support.pipelines import run_pipeline

pytestmark = [pytest.mark.timeout(1_000), pytest.mark.usefixtures("_needed")]


@pytest.fixture(scope="module")
def _needed() -> None:
    need_java()


def test_what_throws_is_run_again_alone_and_what_fails_is_replayed() -> None:
    code, said = run_pipeline("spark_names")
    assert code == 0, said
    for event in (
        "heroes: 刘备 关羽 张飞 曹操 郭嘉 荀彧, a tree of 9 edges",
        r"south, attempt 1: failed \(小乔 does not answer\): it is replayed",
        r"the query ended \(.*关羽 cannot be greeted\) and goes on from its checkpoint",
        "south, attempt 2: acked",
        "heroes, attempt 1: acked",
        "  proven  14 names were greeted once an attempt, but for 关羽$",
        "  proven  0 trees are pending",
    ):
        assert re.search(f"^{event}", said, re.MULTILINE), said


def test_what_goes_wrong_and_is_acked_all_the_same_is_noticed() -> None:
    code, said = run_pipeline("spark_names", "--careless")
    assert code == 1, said
    for claim in (
        "14 names were greeted once an attempt",
        "greeting 关羽 threw: his tuple alone was run again",
        "greeting 小乔 failed: her message alone was replayed",
    ):
        assert re.search(f"^  WRONG   {claim}", said, re.MULTILINE), said
