"""The packed form of a batch: fixed-size records, then a table of the strings that they point to.

All numbers are big-endian. A header of 16 bytes: ``ACKP``, the version, the number of records and the number of
strings, four bytes each. Then one record of 52 bytes per operation (see ``RECORD``). Then the lengths of the strings in
bytes, four bytes each, and the strings themselves in UTF-8, one after the other, up to the end.

A record has every field of the compact forms but ``traceparent``; a field that the operation lacks or leaves out is
zero. Zero is a value of its own in two fields only, so two flags say that these are given. A record points to a string
by its number, counted from 1. ``text`` is the message id of an init; a fail points to its reason by ``spout_task``.
Flag 4 traces the root of an init. With flag 8 a string names the edges of an init or the children of an ack or a fail,
16 hex digits each: an init points to it by ``edge_id``, the others by ``text``. With flag 16 the root of an init ends
when all of its edges have ended, with flag 32 at its first fail. With flag 16 a fail ends an edge, and has the fields
of an ack. With flag 16 an ack is one of a dropped tuple.

Records may share strings, so a small body can hold a large batch: `unpacked_size` says how large.
"""

import struct
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import InvalidRequest, TooLarge
from acker_protocol.ids import format_id
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation
from acker_protocol.wire.edge_names import check_names, read_names, write_names
from acker_protocol.wire.operations import VERBS, decode_operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Table = Sequence[str]

CONTENT_TYPE = "application/vnd.acker.packed"
MAGIC, VERSION = b"ACKP", 2
HEADER = struct.Struct(">4sIII")
RECORD = struct.Struct(">HHiQQQIIIII")
"""op, flags, outstanding, root id, ack val, edge id, two timeouts, numbers of: spout task, text, component."""
LENGTH_BYTES = 4
OUTSTANDING_GIVEN, PROGRESS_GIVEN, TRACED, NAMED = 1, 2, 4, 8
ALL_ENDED, FIRST_FAIL = 16, 32
"""Flags of an init: what ends its root."""
ENDS_EDGE = 16
"""The flag of a fail that ends an edge."""
DROPPED = 16
"""The flag of an ack of a dropped tuple."""
FORMS = ALL_ENDED + FIRST_FAIL
INIT, ACK, FAIL, RESET_TIMEOUT = range(1, 5)
POINTERS = 4
"""The number of strings that a record can point to: an init to its edges, spout task, message id and component."""
MAX_BYTES = 4_194_304
"""The bytes that a batch may have, packed and unpacked, unless the acker's settings say otherwise."""

_FIELDS = (
    *("op", "flags", "outstanding", "root_id", "ack_val", "edge_id", "message_timeout_ms", "progress_timeout_ms"),
    *("spout_task", "text", "component"),
)
END_ON_FLAGS = {EndOn.ALL_ENDED: ALL_ENDED, EndOn.FIRST_FAIL: FIRST_FAIL}
_END_ON = {flag: end_on for end_on, flag in END_ON_FLAGS.items()}
_TEXTS = {(INIT, "text"): "message_id", (FAIL, "spout_task"): "reason"}
_COPIED = struct.Struct(">HH20xQ8xIII")
"""The op, the flags and the numbers of strings that are stored once for each record: names of an init, reason of a
fail, text, component.
"""
_FORMS = {INIT: (0, ALL_ENDED, FIRST_FAIL), ACK: (0, DROPPED), FAIL: (0, ENDS_EDGE), RESET_TIMEOUT: (0,)}
"""The forms that each op has."""
GIVEN = (("outstanding", OUTSTANDING_GIVEN), ("progress_timeout_ms", PROGRESS_GIVEN))


def encode_packed(operations: "Iterable[Operation]") -> bytes:
    """Write a batch; equal strings are written once. Raises `NotPackable`."""
    writer = PackedWriter()
    for operation in operations:
        writer.add(operation)
    return writer.finish()


class NotPackable(ValueError):
    """The packed form has no field for what an operation carries: send the batch as JSON."""


class PackedWriter:
    """Writes a batch, one operation after the other: ``records`` in their order, and the ``numbers`` of strings.

    A caller may add records that it has packed itself, in the form of ``RECORD``.
    """

    __slots__ = ("numbers", "records")

    def __init__(self) -> None:
        self.records = bytearray()
        self.numbers: dict[str, int] = {}

    def add(self, operation: "Operation") -> None:
        """Add an operation of any kind."""
        match operation:
            case Ack():
                self._add_ended(ACK, DROPPED if operation.dropped else 0, operation)
            case Init():
                self._add_init(operation)
            case Fail():
                self._add_ended(FAIL, 0 if operation.is_plain else ENDS_EDGE, operation, operation.reason)
            case _:
                component = self._number(operation.component)
                self._pack(RESET_TIMEOUT, 0, 0, operation.root_id, 0, 0, 0, 0, 0, 0, component)

    def finish(self) -> bytes:
        """Return the batch."""
        strings = [string.encode() for string in self.numbers]
        return b"".join(
            (
                HEADER.pack(MAGIC, VERSION, len(self.records) // RECORD.size, len(strings)),
                self.records,
                struct.pack(f">{len(strings)}I", *map(len, strings)),
                *strings,
            )
        )

    def _add_init(self, init: Init) -> None:
        if init.traceparent is not None:
            raise NotPackable("a packed batch has no field for the traceparent of an init: send the batch as JSON")
        outstanding, progress_ms = init.outstanding, init.progress_timeout_ms
        flags = (outstanding is not None) * OUTSTANDING_GIVEN + (progress_ms is not None) * PROGRESS_GIVEN
        names = self._number(write_names(init.edges)) if init.edges and len(init.edges) > 1 else 0
        flags += bool(init.trace) * TRACED + (names != 0) * NAMED
        flags += END_ON_FLAGS[init.end_on] if init.end_on else 0
        timeouts = init.message_timeout_ms or 0, progress_ms or 0
        texts = self._number(init.spout_task), self._number(init.message_id), self._number(init.component)
        self._pack(INIT, flags, outstanding or 0, init.root_id, init.ack_val, names, *timeouts, *texts)

    def _add_ended(self, op: int, form: int, ended: Ack | Fail, reason: str | None = None) -> None:
        outstanding, children = ended.outstanding, ended.children
        names = self._number(write_names(children)) if children and len(children) > 1 else 0
        flags = form + (outstanding is not None) * OUTSTANDING_GIVEN + (names != 0) * NAMED
        texts = self._number(reason), names, self._number(ended.component)
        ids = ended.root_id, ended.ack_val or 0, ended.edge_id or 0
        self._pack(op, flags, outstanding or 0, *ids, 0, 0, *texts)

    def _pack(self, *values: int) -> None:
        self.records += RECORD.pack(*values)

    def _number(self, string: str | None) -> int:
        return 0 if string is None else self.numbers.setdefault(string, len(self.numbers) + 1)


def decode_packed(body: bytes, *, max_operations: int, max_bytes: int = MAX_BYTES) -> list[Operation]:
    """Read the operations of a batch, at most ``max_operations``, which unpacks to at most ``max_bytes``.

    Raises `TooLarge`, and `InvalidRequest`, with the index of the first malformed operation if there is one.
    """
    operations, count = read_header(body, max_operations=max_operations)
    end = HEADER.size + operations * RECORD.size
    ends = _read_ends(body, end, count)
    check_unpacked_size(unpacked_size(body), max_bytes=max_bytes)
    strings = [_string(number, body[start:end]) for number, (start, end) in enumerate(pairwise(ends), 1)]
    records = RECORD.iter_unpack(body[HEADER.size : end])
    return [_decode_one(index, record, strings) for index, record in enumerate(records)]


def read_header(body: bytes, *, max_operations: int) -> tuple[int, int]:
    """Read the numbers of records and strings; the body is long enough for the records and the lengths.

    Raises `TooLarge`, `InvalidRequest`.
    """
    if len(body) < HEADER.size:
        raise InvalidRequest(f"the body is shorter than the header of a packed batch, {HEADER.size} bytes")
    magic, version, operations, strings = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION:
        raise InvalidRequest(f"the body must begin with {MAGIC.decode()} and version {VERSION}")
    if operations > max_operations:
        raise TooLarge(f"the batch has {operations} operations; at most {max_operations} are taken")
    if strings > operations * POINTERS:
        raise InvalidRequest(f"{operations} operations cannot point to {strings} strings")
    if len(body) < HEADER.size + operations * RECORD.size + strings * LENGTH_BYTES:
        raise InvalidRequest(f"the body is too short for {operations} records and the lengths of {strings} strings")
    return operations, strings


def unpacked_size(body: bytes) -> int:
    """Compute the bytes of a batch in which every record has a copy of its texts and component.

    The spout task does not count, for a number takes its place. ``body`` is one that `read_header` takes; a pointer
    beyond the table counts as none.
    """
    _, _, operations, strings = HEADER.unpack_from(body)
    end = HEADER.size + operations * RECORD.size
    lengths = (0, *struct.unpack_from(f">{strings}I", body, end))
    size: int = end
    for op, flags, names, reason, text, component in _COPIED.iter_unpack(body[HEADER.size : end]):
        pointers = [text, component]
        if op == INIT and flags & NAMED:
            pointers.append(names)
        elif op == FAIL:
            pointers.append(reason)
        size += sum(lengths[pointer] for pointer in pointers if pointer <= strings)
    return size


def fits(body: bytes, *, max_bytes: int = MAX_BYTES) -> bool:
    """Whether a batch has at most ``max_bytes``, packed and unpacked.

    A bound is computed first, as if each record had the longest string `POINTERS` times: most batches are far below.
    """
    _, _, operations, strings = HEADER.unpack_from(body)
    end = HEADER.size + operations * RECORD.size
    longest = max(struct.unpack_from(f">{strings}I", body, end), default=0)
    if max(len(body), end + POINTERS * operations * longest) <= max_bytes:
        return True
    return max(len(body), unpacked_size(body)) <= max_bytes


def check_unpacked_size(size: int, *, max_bytes: int) -> None:
    """Raise `TooLarge` for a batch that unpacks to more than ``max_bytes``."""
    if size > max_bytes:
        detail = f"the batch unpacks to {size} bytes; at most {max_bytes} are taken: send fewer operations at once"
        raise TooLarge(detail)


def _read_ends(body: bytes, at: int, count: int) -> "Sequence[int]":
    """Return where the strings begin and end: one number more than there are strings."""
    lengths = struct.unpack_from(f">{count}I", body, at)
    ends = list(accumulate(lengths, initial=at + count * LENGTH_BYTES))
    if ends[-1] != len(body):
        raise InvalidRequest(f"the strings end at byte {ends[-1]} and the body at {len(body)}")
    return ends


def _string(number: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"string {number} must be UTF-8") from None


def _decode_one(index: int, record: tuple[int, ...], strings: "Table") -> Operation:
    fields = dict(zip(_FIELDS, record, strict=True))
    op, flags = fields.pop("op"), fields.pop("flags")
    try:
        if not INIT <= op <= RESET_TIMEOUT:
            raise InvalidRequest(f"op must be from {INIT} to {RESET_TIMEOUT}")
        _check_flags(op, flags)
        names = _take_names(op, fields, strings) if flags & NAMED else None
        operation = decode_operation(VERBS[op - 1], _document(op, flags, fields, strings))
        return operation if names is None else _with_names(operation, names)
    except InvalidRequest as error:
        raise InvalidRequest(f"ops[{index}]: {error.detail}", index=index) from None


def _check_flags(op: int, flags: int) -> None:
    if flags > OUTSTANDING_GIVEN + PROGRESS_GIVEN + TRACED + NAMED + FORMS:
        raise InvalidRequest("flags must not hold other bits than 1, 2, 4, 8, 16 and 32")
    if flags & TRACED and op != INIT:
        raise InvalidRequest("flag 4 is for an init: it traces the root")
    if flags & NAMED and (op == RESET_TIMEOUT or not flags & OUTSTANDING_GIVEN):
        raise InvalidRequest("flag 8 is for an init, an ack or a fail with outstanding: it names the edges")
    if op == FAIL and flags and not flags & ENDS_EDGE:
        raise InvalidRequest("a fail has other flags only with flag 16: it ends an edge")
    if flags & FORMS not in _FORMS[op]:
        raise InvalidRequest(
            "flags 16 and 32 are for an init, not both: what ends it; flag 16 also for a fail of an edge and an ack of "
            "a dropped tuple"
        )


def _take_names(op: int, fields: dict[str, int], strings: "Table") -> tuple[int, ...]:
    """Take the pointer to the names of edges out of the fields, and give these edges."""
    field = "edge_id" if op == INIT else "text"
    number, fields[field] = fields[field], 0
    return read_names(_string_at(number, strings) if number else "")


def _with_names(operation: "Operation", names: tuple[int, ...]) -> "Operation":
    """Give an operation the names of its edges. Raises `InvalidRequest` where its ack val or count is another."""
    if isinstance(operation, Init):
        check_names(names, acked=None, ack_val=operation.ack_val, outstanding=operation.outstanding)
        return replace(operation, edges=names)
    assert isinstance(operation, Ack | Fail)
    if operation.edge_id is None or operation.ack_val is None:
        raise InvalidRequest("an ack or a fail that names its children needs its edge id")
    check_names(names, acked=operation.edge_id, ack_val=operation.ack_val, outstanding=operation.outstanding)
    return replace(operation, children=names)


def _document(op: int, flags: int, fields: dict[str, int], strings: "Table") -> dict[str, Any]:
    """Return the fields of a record as in JSON. A zero is left out, unless it is marked as given."""
    given = {name for name, flag in GIVEN if flags & flag}
    if op in (INIT, ACK) or flags & FORMS:
        given.add("ack_val")
    flagged = [name for name, _ in GIVEN] if op != FAIL or flags else ["outstanding", "ack_val", "edge_id"]
    for name in flagged:
        if fields[name] and name not in given:
            raise InvalidRequest(f"{name} must be 0 without its flag")
    present = {name: value for name, value in fields.items() if value or name in given}
    document = {name: _READ.get(name, _number)(value, strings) for name, value in present.items()}
    for field in ("text", "spout_task"):
        if field in document and (op, field) in _TEXTS:
            document[_TEXTS[op, field]] = document.pop(field)
    if flags & TRACED:
        document["trace"] = True
    if op == INIT and flags & FORMS:
        document["end_on"] = _END_ON[flags & FORMS]
    if op == ACK and flags & DROPPED:
        document["dropped"] = True
    return {"root_id": format_id(0)} | document


def _number(value: int, _: "Table") -> int:
    return value


def _identity(value: int, _: "Table") -> str:
    return format_id(value)


def _string_at(number: int, strings: "Table") -> str:
    if number > len(strings):
        raise InvalidRequest(f"there is no string {number}, only {len(strings)}")
    return strings[number - 1]


_READ = dict.fromkeys(("root_id", "ack_val", "edge_id"), _identity) | dict.fromkeys(
    ("spout_task", "text", "component"), _string_at
)
