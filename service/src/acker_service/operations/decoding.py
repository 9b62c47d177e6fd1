"""Decodes operations: batches into columns, single ones by the reference codec, which explains what is wrong with both.

Before the reference codec builds a large JSON document, the shape of the document is checked. A body of nothing but
empty lists is small to send and large to build, and the garbage collector walks through all of it again and again.
"""

import contextlib
from typing import Any

import msgspec
from acker_protocol.errors import InvalidRequest, TooLarge
from acker_protocol.operations import Operation
from acker_protocol.wire import operations as json_codec
from acker_protocol.wire import packed

from acker_service.operations import json_columns, packed_columns
from acker_service.operations.column_batch import ColumnBatch

CONTENT_TYPES = (json_codec.CONTENT_TYPE, packed.CONTENT_TYPE)
"""The content types of a batch."""

MAX_UNCHECKED_BYTES = 65_536
"""JSON of at most this size is built without a check of its shape; that takes a few milliseconds, whatever it holds."""
_MAX_DETAIL = 200
"""Characters of an error of msgspec that are repeated."""


class _BatchShape(msgspec.Struct, forbid_unknown_fields=True):
    """A batch; its operations stay bytes."""

    ops: list[msgspec.Raw]


_OperationShape = msgspec.defstruct(
    "_OperationShape",
    [(name, str | int | float | bool | list[str] | None, None) for name in sorted(json_codec.FIELDS)],
    forbid_unknown_fields=True,
)
"""An operation: every value that the contract allows is of one of these types, and no list holds another."""

_batch_decoder = msgspec.json.Decoder(_BatchShape)
_decode_document = msgspec.json.Decoder(dict[str, Any]).decode
_operation_decoder = msgspec.json.Decoder(_OperationShape)


def decode(content_type: str, body: bytes, *, max_operations: int, max_bytes: int = packed.MAX_BYTES) -> ColumnBatch:
    """Decode a batch of one of the `CONTENT_TYPES`, of ``max_operations`` operations at most.

    A packed batch unpacks to ``max_bytes`` at most. If the column decoders refuse a body, the reference codec raises
    the error; should it take the body, its operations are decoded from the JSON that it writes of them. Raises
    `TooLarge`, `InvalidRequest`.
    """
    with contextlib.suppress(ValueError, RecursionError):
        return decode_columns(content_type, body, max_operations=max_operations, max_bytes=max_bytes)
    if content_type == packed.CONTENT_TYPE:
        taken = packed.decode_packed(body, max_operations=max_operations, max_bytes=max_bytes)
    else:
        taken = decode_json_batch(body, max_operations=max_operations)
    return json_columns.decode(json_codec.encode_batch(taken), max_operations=max_operations)


def decode_columns(content_type: str, body: bytes, *, max_operations: int, max_bytes: int) -> ColumnBatch:
    """Decode a batch, or raise for one that the reference codec has to explain.

    The column decoders take a subset of what the reference codec takes. Raises ``ValueError`` or ``RecursionError``,
    and what the reference codec would raise too.
    """
    if content_type == packed.CONTENT_TYPE:
        return packed_columns.decode(body, max_operations=max_operations, max_bytes=max_bytes)
    return json_columns.decode(body, max_operations=max_operations)


def decode_json_batch(body: bytes, *, max_operations: int) -> list[Operation]:
    """Decode a JSON batch by the reference codec. Raises `TooLarge`, `InvalidRequest`."""
    if len(body) > MAX_UNCHECKED_BYTES:
        _check_batch_shape(body, max_operations=max_operations)
    document = json_codec.decode_json(body)
    ops = document.get("ops")
    if isinstance(ops, list):
        _check_count(len(ops), max_operations=max_operations)
    return json_codec.decode_batch(document, max_operations=max_operations)


def decode_operation(verb: str, body: bytes) -> Operation:
    """Decode a single operation from JSON. Raises `InvalidRequest`.

    msgspec reads a subset of what the reference codec reads, several times as fast.
    """
    if len(body) > MAX_UNCHECKED_BYTES:
        _check_operation_shape(body)
    try:
        return json_codec.decode_operation(verb, _decode_document(body))
    except (ValueError, RecursionError, InvalidRequest):
        return json_codec.decode_operation(verb, json_codec.decode_json(body))


def _check_batch_shape(body: bytes, *, max_operations: int) -> None:
    """Check that a batch has few operations, and each the shape of one. Build one operation at a time."""
    try:
        ops = _batch_decoder.decode(body).ops
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f'the body must be {{"ops": [...]}} and nothing else: {_brief(error)}') from None
    _check_count(len(ops), max_operations=max_operations)
    for index, op in enumerate(ops):
        try:
            _check_operation_shape(op)
        except InvalidRequest as error:
            raise InvalidRequest(f"ops[{index}]: {error.detail}", index=index) from None


def _check_operation_shape(body: bytes | msgspec.Raw) -> None:
    """Check that a JSON object has no other fields than operations have, and no list within a list."""
    try:
        _operation_decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"an operation must be a JSON object of its fields: {_brief(error)}") from None


def _check_count(count: int, *, max_operations: int) -> None:
    if count > max_operations:
        raise TooLarge(f"the batch has {count} operations; at most {max_operations} are taken")


def _brief(error: Exception) -> str:
    """Cut what an error says, for it repeats the name of a field that is not known."""
    return str(error)[:_MAX_DETAIL]
