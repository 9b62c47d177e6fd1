"""Knows whether the values of columns are within the limits of the contract, all looked at together."""

from acker_protocol.wire import fields, packed

from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.column_builder import all_in_range

_SHORT = fields.MESSAGE_ID_BYTES // 4
"""Of so many characters, no text is too long."""

_TEXTS = {packed.INIT: fields.message_id, packed.FAIL: fields.reason}


def check(columns: ColumnBatch) -> None:
    """Raise ``ValueError`` if a value is not within its limits; which one it is, the reference codec says."""
    if len(columns):
        _check_numbers(columns)
        _check_names(columns)
        _check_texts(columns)


def _check_numbers(columns: ColumnBatch) -> None:
    records = columns.records
    if not records["root_id"].all():
        raise ValueError("a root id is zero")
    if max(records[pointer].max() for pointer in ("spout_task", "text", "component")) > len(columns.strings):
        raise ValueError("a string is not in the table")
    for field in ("message_timeout_ms", "progress_timeout_ms"):
        if not all_in_range(records[field][records[field] != 0], fields.TIMEOUT_MS):
            raise ValueError("a timeout is out of range")


def _check_names(columns: ColumnBatch) -> None:
    records = columns.records
    if not records["spout_task"][records["op"] == packed.INIT].all():
        raise ValueError("an init names no spout task")
    for number in columns.used_strings("spout_task", "component"):
        fields.name(columns.strings[number - 1])


def _check_texts(columns: ColumnBatch) -> None:
    if max(map(len, columns.strings), default=0) <= _SHORT:
        return
    records = columns.records
    for op, checked in _TEXTS.items():
        for number in set(records["text"][records["op"] == op].tolist()) - {0}:
            checked(columns.strings[number - 1])
