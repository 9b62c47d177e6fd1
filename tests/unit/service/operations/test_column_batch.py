import numpy as np
import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_service.operations.column_batch import RAW_RECORD, RECORDS, contains

from tests.support.columns import columns, columns_of

INIT = Init(root_id=1, spout_task="s", ack_val=2)
ACK = Ack(root_id=1, ack_val=2)
OTHERS: list[Operation] = [Fail(root_id=1), ResetTimeout(root_id=1)]
STRINGS = ("reader", "42", "writer", "late", "bolt")


def test_a_record_is_as_long_as_the_packed_form_says() -> None:
    assert RECORDS.itemsize == RAW_RECORD.itemsize == packed.RECORD.size


def test_a_record_has_its_fields_where_the_packed_form_has_them() -> None:
    values = tuple(range(1, 12))
    (record,) = np.frombuffer(packed.RECORD.pack(*values), RECORDS)
    assert tuple(record.tolist()) == values


def test_there_are_as_many_operations_as_records() -> None:
    assert [len(columns(*[{}] * count)) for count in (0, 1, 7)] == [0, 1, 7]


def test_the_strings_that_fields_point_to_are_told_each_once_and_nothing_for_none() -> None:
    some = columns({"text": 2, "spout_task": 1}, {"text": 2}, {"component": 5}, {"text": 4}, strings=STRINGS)
    assert some.used_strings("text") == [2, 4]
    assert some.used_strings("text", "component", "spout_task") == [1, 2, 4, 5]
    assert columns({}, strings=STRINGS).used_strings("text", "component", "spout_task") == []


def test_the_spout_tasks_are_those_that_are_pointed_to_and_no_other_strings() -> None:
    some = columns({"spout_task": 3, "text": 2}, {"spout_task": 1}, {"spout_task": 3}, {"text": 4}, strings=STRINGS)
    assert some.spout_tasks == {"reader", "writer"}
    assert columns({"text": 2}, strings=STRINGS).spout_tasks == frozenset()


@pytest.mark.parametrize(
    ("messages", "kinds"),
    [([], set()), (OTHERS, set()), ([*OTHERS, INIT], {Init}), ([ACK, INIT], {Ack, Init}), ([ACK], {Ack})],
)
def test_messages_and_columns_of_them_hold_the_same_kinds(messages: list[Operation], kinds: set[type]) -> None:
    for form in (messages, columns_of(messages)):
        assert {kind for kind in (Init, Ack) if contains(form, kind)} == kinds
