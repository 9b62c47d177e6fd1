"""Decodes the batches: fast into columns, and by the reference codec where that finds something it does not take."""

from acker_protocol.messages import Message
from acker_protocol.problems import TooLarge
from acker_protocol.wire.operations import decode_batch, decode_json
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed

from acker_service.api import json_batch, packed_batch
from acker_service.api.bodies import JSON
from acker_service.domain.columns import Operations


def decode_json_batch(body: bytes, *, most: int) -> list[Message]:
    """Decode a JSON batch by the reference codec. Raises `TooLarge`, `Invalid`."""
    document = decode_json(body)
    ops = document.get("ops")
    if isinstance(ops, list) and len(ops) > most:
        raise TooLarge(f"the batch has {len(ops)} operations; at most {most} are taken")
    return decode_batch(document, most=most)


_FAST = {JSON: json_batch.decode, CONTENT_TYPE: packed_batch.decode}
_REFERENCE = {JSON: decode_json_batch, CONTENT_TYPE: decode_packed}
BATCHES = tuple(_FAST)
"""The content types of a batch."""


def decode(kind: str, body: bytes, *, most: int) -> Operations:
    """Decode a batch of a content type, of ``most`` operations at most.

    The fast decoders take less than the reference, never more: what one of them refuses the reference decides, and its
    words say what is wrong. Raises `TooLarge`, `Invalid`.
    """
    try:
        return _FAST[kind](body, most=most)
    except ValueError:
        return _REFERENCE[kind](body, most=most)
