"""Tests the options of ``format("acker")``."""

import pytest
from acker_spark.errors import InvalidOptions
from acker_spark.source.options import EARLIEST, OPTIONS, SourceOptions, read_options

GOOD = {"url": "http://127.0.0.1:8700", "topology": "orders", "spoutTask": "reader"}


def test_what_is_left_out_has_its_default() -> None:
    assert read_options(GOOD) == SourceOptions(
        url=GOOD["url"], topology="orders", spout_task="reader", token=None, starting_offsets=EARLIEST,
        max_completions_per_trigger=10_000, fail_on_data_loss=True, poll_timeout_ms=1_000,
    )  # fmt: skip


@pytest.mark.parametrize("case", [str.lower, str.upper, str])
def test_the_case_of_a_name_does_not_matter(case: type[str]) -> None:
    given = GOOD | {"maxCompletionsPerTrigger": "7", "failOnDataLoss": "FALSE", "pollTimeoutMs": "0"}
    options = read_options({case(name): value for name, value in given.items()})
    assert (options.max_completions_per_trigger, options.fail_on_data_loss, options.poll_timeout_ms) == (7, False, 0)


@pytest.mark.parametrize(
    ("text", "cursor"),
    [("earliest", ""), ("Latest", None), ('{"cursor": "c7"}', "c7"), ('{"cursor": "c7", "count": 3}', "c7")],
)
def test_where_a_query_begins_is_read(text: str, cursor: str | None) -> None:
    assert read_options(GOOD | {"startingOffsets": text}).starting_offsets == cursor


@pytest.mark.parametrize("text", ["first", "7", "[]", "{}", '{"cursor": 7}', '{"cursor": "c', '"cursor"', ""])
def test_any_other_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptions, match=r'startingOffsets must be earliest, latest or \{"cursor": "…"\}, not'):
        read_options(GOOD | {"startingOffsets": text})


def test_all_that_is_wrong_is_in_one_error() -> None:
    wrong = {"url": "acker", "spout_task": "r", "max_per_batch": "9", "failOnDataLoss": "maybe", "pollTimeoutMs": "-1"}
    with pytest.raises(InvalidOptions) as caught:
        read_options(wrong)
    text = str(caught.value)
    for fault in (
        "url must be an http or https URL, not 'acker'",
        "there is no option spout_task, did you mean spoutTask?",
        "there is no option max_per_batch",
        "failOnDataLoss must be true or false, not 'maybe'",
        "pollTimeoutMs must be a whole number from 0 to 60000, not '-1'",
        "topology is missing",
        "spoutTask is missing",
    ):
        assert fault in text
    assert len(caught.value.faults) == 7


def test_the_help_names_every_field() -> None:
    assert len(OPTIONS) == len(SourceOptions.__dataclass_fields__)
