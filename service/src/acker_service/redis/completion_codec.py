"""Reads the completions of mailbox entries, and writes them as the JSON of the contract.

The layout is that of lua/completions.lua; no other Python module spells it. The JSON is written from the bytes of the
entry, without an object in between, because that takes two thirds of what a completion costs the service.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring, encode_basestring_ascii

from acker_protocol.operations import CompletionRecord, Outcome

EPOCH_MS = 1_577_836_800_000
"""Redis counts the times of completions from 2020-01-01."""

_COMPLETION = struct.Struct(">QBIBIB")
"""The fixed fields: root id, start and end in milliseconds since `EPOCH_MS` (high byte and the rest), flags."""
_TEXT_LENGTH = struct.Struct(">H")

_OUTCOME_MASK = 3
_OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.TIMED_OUT)
_OUTCOME_NAMES = tuple(outcome.value for outcome in _OUTCOMES)
_MESSAGE_ID, _REASON, _COMPONENT, _TRACEPARENT, _FAILURES, _DROPPED = 4, 8, 16, 32, 64, 128
"""The flags of the texts that follow the fixed fields, in this order."""
_PROGRESS = struct.Struct(">BiBI")
"""How the text `_COMPONENT` of a timeout begins: flags, outstanding, time of the last ack; then the last component."""
_OUTSTANDING_KNOWN, _ACK_CAME = 1, 2
_TIMED_OUT = 2
_NO_PROGRESS = ',"last_component":null,"last_ack_at_ms":null,"outstanding":null'
_ANY_TEXT = _MESSAGE_ID | _REASON | _COMPONENT | _TRACEPARENT | _FAILURES | _DROPPED
_OUTCOME_FLAGS = bytes(range(len(_OUTCOMES)))
"""The flags of completions without texts."""
_TEXTS = tuple((flags & _ANY_TEXT).bit_count() for flags in range(256))
"""The number of texts by flags."""

Quote = Callable[[str], str]
"""Writes a text as JSON."""

UNICODE: Quote = encode_basestring
"""Leaves other characters than ASCII as they are."""
ASCII: Quote = encode_basestring_ascii
"""Escapes them."""


@dataclass(slots=True, kw_only=True)
class CompletionDocuments:
    """Completions in the JSON form of the contract, their ids, and when each root ended; three lists of one length."""

    documents: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    ended_ms: list[int] = field(default_factory=list)


class PackedCompletions:
    """Some completions of one entry, as they are packed; without the first ``skip``.

    They are counted at once, and written only when someone asks for them.
    """

    __slots__ = ("_at", "_count", "_has_texts", "_packed")

    def __init__(self, packed: bytes, *, skip: int = 0) -> None:
        self._packed = packed
        self._at = 0
        self._has_texts = _has_texts(packed)
        count = _count_with_texts(packed) if self._has_texts else len(packed) // _COMPLETION.size
        self._count = max(0, count - skip)
        self._at = self._end_of(min(skip, count))

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """The bytes that were read for them."""
        return len(self._packed)

    @property
    def data(self) -> bytes:
        """The completions as they are packed."""
        return self._packed[self._at : self._end_of(self._count)]

    def split(self, count: int) -> tuple["PackedCompletions", "PackedCompletions"]:
        """Divide them into the first ``count`` and the rest."""
        count = min(count, self._count)
        return self._part(self._at, count), self._part(self._end_of(count), self._count - count)

    def write(self, incarnation: str, quote: Quote, into: CompletionDocuments | None = None) -> CompletionDocuments:
        """Write them as JSON, behind others if ``into`` holds some."""
        written = CompletionDocuments() if into is None else into
        _write(self._packed, self._at, self._count, incarnation, quote, written)
        return written

    def _part(self, at: int, count: int) -> "PackedCompletions":
        part = object.__new__(PackedCompletions)
        part._packed, part._has_texts, part._at, part._count = self._packed, self._has_texts, at, count
        return part

    def _end_of(self, count: int) -> int:
        """Return the position behind the first ``count``."""
        if not self._has_texts:
            return self._at + count * _COMPLETION.size
        at = self._at
        for _ in range(count):
            at = _next(self._packed, at)
        return at


def _write(packed: bytes, at: int, count: int, incarnation: str, quote: Quote, written: CompletionDocuments) -> None:
    """Write ``count`` completions that begin at a position, as the JSON text of what `encode_completion` gives.

    One loop without calls of its own: the time of each call here is paid once a completion.
    """
    add_document, add_id, add_ended = written.documents.append, written.ids.append, written.ended_ms.append
    unpack, sha256, size, names = _COMPLETION.unpack_from, hashlib.sha256, _COMPLETION.size, _OUTCOME_NAMES
    for _ in range(count):
        root, start_high, start_low, end_high, end_low, flags = unpack(packed, at)
        at += size
        message_id = reason = component = "null"
        more = ""
        is_timeout = flags & _OUTCOME_MASK == _TIMED_OUT
        progress = _NO_PROGRESS if is_timeout else ""
        if flags & _ANY_TEXT:
            if flags & _MESSAGE_ID:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                message_id = quote(packed[begin:at].decode())
            if flags & _REASON:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                reason = quote(packed[begin:at].decode())
            if flags & _COMPONENT:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                if is_timeout:
                    progress = _write_progress(packed[begin:at], quote)
                else:
                    component = quote(packed[begin:at].decode())
            if flags & _TRACEPARENT:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                more = f',"traceparent":"{_read_traceparent(packed[begin:at])}"'
            if flags & _FAILURES:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                more += f',"failures":{int.from_bytes(packed[begin:at], "big")}'
            if flags & _DROPPED:
                begin, at = at + 2, at + 2 + (packed[at] << 8 | packed[at + 1])
                more += f',"dropped":{int.from_bytes(packed[begin:at], "big")}'
        started, ended = EPOCH_MS + (start_high << 32 | start_low), EPOCH_MS + (end_high << 32 | end_low)
        outcome, root_id = names[flags & _OUTCOME_MASK], f"{root:016x}"
        name = sha256(f"{incarnation}:{root_id}:{started}:{outcome}".encode()).hexdigest()[:32]
        add_id(name)
        add_ended(ended)
        # rule: a latency is never negative
        add_document(
            f'{{"id":"{name}","root_id":"{root_id}","outcome":"{outcome}","message_id":{message_id},"reason":{reason}'
            f',"component":{component},"complete_latency_ms":{ended - started if ended > started else 0}'
            f',"at_ms":{ended}{more}{progress}}}'
        )


def decode_completions(packed: bytes, spout_task: str) -> Iterator[CompletionRecord]:
    """Decode the completions of one entry in the mailbox of a spout task."""
    at = 0
    while at < len(packed):
        root_id, start_high, start_low, end_high, end_low, flags = _COMPLETION.unpack_from(packed, at)
        at += _COMPLETION.size
        texts: dict[int, bytes] = {}
        for flag in (_MESSAGE_ID, _REASON, _COMPONENT, _TRACEPARENT, _FAILURES, _DROPPED):
            if flags & flag:
                (length,) = _TEXT_LENGTH.unpack_from(packed, at)
                at += _TEXT_LENGTH.size + length
                texts[flag] = packed[at - length : at]
        outcome = _OUTCOMES[flags & _OUTCOME_MASK]
        progress = texts.pop(_COMPONENT, None) if outcome is Outcome.TIMED_OUT else None
        last_component, last_ack_ms, outstanding = (None, None, None) if progress is None else _read_progress(progress)
        yield CompletionRecord(
            root_id=root_id,
            spout_task=spout_task,
            outcome=outcome,
            message_id=_text(texts.get(_MESSAGE_ID)),
            reason=_text(texts.get(_REASON)),
            component=_text(texts.get(_COMPONENT)),
            started_ms=EPOCH_MS + (start_high << 32 | start_low),
            at_ms=EPOCH_MS + (end_high << 32 | end_low),
            traceparent=_read_traceparent(texts[_TRACEPARENT]) if _TRACEPARENT in texts else None,
            last_component=last_component,
            last_ack_ms=last_ack_ms,
            outstanding=outstanding,
            failures=int.from_bytes(texts[_FAILURES], "big") if _FAILURES in texts else None,
            dropped=int.from_bytes(texts.get(_DROPPED, b""), "big"),
        )


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()


def _read_progress(raw: bytes) -> tuple[str | None, int | None, int | None]:
    """Read what a timeout says of its root: the component of the last ack, its time, and the edges outstanding."""
    flags, outstanding, high, low = _PROGRESS.unpack_from(raw)
    last_ack_ms = EPOCH_MS + (high << 32 | low) if flags & _ACK_CAME else None
    return raw[_PROGRESS.size :].decode() or None, last_ack_ms, outstanding if flags & _OUTSTANDING_KNOWN else None


def _write_progress(raw: bytes, quote: Quote) -> str:
    component, last_ack_ms, outstanding = _read_progress(raw)
    return (
        f',"last_component":{"null" if component is None else quote(component)}'
        f',"last_ack_at_ms":{"null" if last_ack_ms is None else last_ack_ms}'
        f',"outstanding":{"null" if outstanding is None else outstanding}'
    )


def _read_traceparent(raw: bytes) -> str:
    """Write what `codec.encode_traceparent` has packed as the header's value."""
    return f"00-{raw[:16].hex()}-{raw[16:24].hex()}-{raw[24:].hex()}"


def _has_texts(packed: bytes) -> bool:
    """Whether a completion of an entry has a text; without any, all are of one length."""
    size = _COMPLETION.size
    # rule: an entry with texts is walked
    return bool(len(packed) % size or packed[size - 1 :: size].translate(None, _OUTCOME_FLAGS))


def _count_with_texts(packed: bytes) -> int:
    at = count = 0
    while at < len(packed):
        at, count = _next(packed, at), count + 1
    return count


def _next(packed: bytes, at: int) -> int:
    """Return the position behind the completion at a position."""
    at += _COMPLETION.size
    for _ in range(_TEXTS[packed[at - 1]]):
        at += _TEXT_LENGTH.size + (packed[at] << 8 | packed[at + 1])
    return at
