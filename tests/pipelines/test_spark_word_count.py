"""The word count on Spark proves itself, and notices a batch that counts twice."""

import re

import pytest

from tests.support.java import need_java
from tests.support.pipelines import run_pipeline

pytestmark = [pytest.mark.timeout(1_000), pytest.mark.usefixtures("_needed")]


@pytest.fixture(scope="module")
def _needed() -> None:
    need_java()


def test_the_counts_are_right_and_what_failed_is_replayed() -> None:
    code, said = run_pipeline("spark_word_count")
    assert code == 0, said
    for event in (
        r"sentence \d+, attempt 1: failed \('prism' is too hard the first time\), replayed: '.*prism",
        r"sentence \d+, attempt 2: acked",
        r"the query ended \(.*batch 1 fails between saving its counts and acking its sentences",
        "  proven  the word counts equal a plain count: 3256 words, 659 different ones",
        "  proven  300 of 300 sentences were acked",
        r"  proven  [1-4] sentences failed, were replayed and then acked",
        r"  proven  batch \[1\] failed after its counts were saved, was run again, and counts once",
        "  proven  0 trees are pending",
    ):
        assert re.search(f"^{event}", said, re.MULTILINE | re.IGNORECASE), said


def test_a_batch_that_is_appended_twice_is_noticed() -> None:
    code, said = run_pipeline("spark_word_count", "--lines", "120", "--hard-word", "light", "--careless")
    assert code == 1, said
    assert re.search(r"^  WRONG   the word counts differ from a plain count in [1-9]\d* words", said, re.MULTILINE), (
        said
    )
