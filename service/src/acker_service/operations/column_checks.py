"""Checks that the values of columns are within the limits of the contract, all at once."""

from acker_protocol.wire import fields, packed

from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.column_builder import all_in_range

_SHORT = fields.MESSAGE_ID_BYTES // 4
"""A text of at most this many characters is never too long in bytes."""

_TEXTS = {packed.INIT: fields.message_id, packed.FAIL: fields.reason}


def check(batch: ColumnBatch) -> None:
    """Raise ``ValueError`` if a value is beyond its limits; the reference codec says which one."""
    if len(batch):
        _check_numbers(batch)
        _check_names(batch)
        _check_texts(batch)


def _check_numbers(batch: ColumnBatch) -> None:
    records = batch.records
    if not records["root_id"].all():
        raise ValueError("a root id is zero")
    if max(records[pointer].max() for pointer in ("spout_task", "text", "component")) > len(batch.strings):
        raise ValueError("a string is not in the table")
    for field in ("message_timeout_ms", "progress_timeout_ms"):
        if not all_in_range(records[field][records[field] != 0], fields.TIMEOUT_MS):
            raise ValueError("a timeout is out of range")


def _check_names(batch: ColumnBatch) -> None:
    records = batch.records
    if not records["spout_task"][records["op"] == packed.INIT].all():
        raise ValueError("an init names no spout task")
    for number in batch.used_strings("spout_task", "component"):
        fields.name(batch.strings[number - 1])


def _check_texts(batch: ColumnBatch) -> None:
    if max(map(len, batch.strings), default=0) <= _SHORT:
        return
    records = batch.records
    for op, check_text in _TEXTS.items():
        for number in set(records["text"][records["op"] == op].tolist()) - {0}:
            check_text(batch.strings[number - 1])
