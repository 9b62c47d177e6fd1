"""The hot path of the client: from the header of a message to the packed record of its ack.

Reading the header, the tuple, a child's id and header, the ack, its fold and its record stand in one module of plain
typed Python: an ack takes few calls, and Cython compiles the file as it is, with the types of ``hot_path.pxd``. What
each ack passes has no closures and no generators, and its ids are integers. Whatever is rare is done elsewhere:
`BaseTuple`, `Submitter`, `AckBuffer`.
"""

import struct
import sys
import threading
from binascii import unhexlify
from collections.abc import Sequence
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, overload

from acker_protocol.anchors import (
    ANCHOR_LENGTH,
    MAX_ANCHORS,
    WSGI_NAME,
    check_count,
    from_ids,
    is_anchors,
    read_anchors,
    write_header,
)
from acker_protocol.ids import derive_edge, draw_id
from acker_protocol.operations import Ack
from acker_protocol.routes import ANCHORS
from acker_protocol.tracing import MARK_MASK
from acker_protocol.wire import fields
from acker_protocol.wire.packed import PackedWriter

from acker_client._core import id_map, locks, validate, wire_ids
from acker_client.errors import DuplicateKey, TupleClosed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from contextlib import AbstractContextManager

    from acker_protocol.anchors import Anchors, Headers
    from acker_protocol.operations import Operation, OperationState

    from acker_client._core.waiters import Failure
    from acker_client.config import OnError
    from acker_client.propagate import AnchorParent

    Acks = tuple[tuple[int, ...], "Sequence[EdgeSet] | None"]
    """What a tuple acks: the root id and the edge id of each anchor in turn, and their edges if children were made."""

    Remaining = Generator[Any, Any, list[OperationState]] | None
    """The flow of what is left to do of an ack; see `effects.Remaining`."""

    class Info(Protocol):
        """What is known of the topology; see `TopologyInfo`."""

        @property
        def dedupes(self) -> bool:
            """Whether it remembers edges, so that their acks must not fold."""

        @property
        def trace(self) -> float:
            """The share of its roots that is traced."""

        def is_traced(self, root_id: int) -> bool:
            """Whether the acks of a root name their edges."""

    class OpenBatch(Protocol):
        """See `Batch`."""

        owner: object
        closed: bool
        operations: "FoldedOperations"

    class Submitter(Protocol):
        """What is left to it of beginning and acking a tuple."""

        @property
        def flusher(self) -> Any:
            """What sends its acks."""

        def count_untracked(self) -> None:
            """Count a tuple without anchors."""

        def skip(self, tup: Any) -> None:
            """Close it and count it, whatever became of its roots."""

        def require_keys(self, tup: "ReceivedTuple") -> Generator[Any, Any, None]:
            """Refuse children without a key where the topology does not dedupe."""

        def ack_otherwise(
            self, tup: "ReceivedTuple", context: "TupleContext", batch: OpenBatch | None, *, dropped: bool
        ) -> Remaining:
            """Ack it where that is not to buffer it."""

        def attend(self) -> Generator[Any, Any, list[OperationState]]:
            """Let a flusher send what is buffered."""

        def fail(self, tup: Any, *, reason: str | None) -> Generator[Any, Any, list[OperationState]]:
            """Fail its roots."""

        def reset_timeout(self, tup: Any) -> Generator[Any, Any, list[OperationState]]:
            """Reset the timeout of its roots."""

        def is_wanted(self, tup: Any) -> Generator[Any, Any, bool]:
            """Whether it is to be processed."""

        def skip_if_ended(self, tup: Any) -> Generator[Any, Any, bool]:
            """Close it if it is not."""

        def interrupt(self, tup: Any, error: BaseException) -> Generator[Any, Any, bool]:
            """End its block with an exception."""


MIN_OUTSTANDING, MAX_OUTSTANDING = fields.OUTSTANDING.start, fields.OUTSTANDING.stop - 1

MAX_CHECKED_COMPONENTS = 1_024
"""Names of components that a client remembers as valid; it checks any further name each time."""

_CLOSED, _NEVER = -1, -2
"""What stands for the index of the fold of a root where its acks do not fold any more, or it has no operation."""

_NAME_LENGTH, _WSGI_LENGTH = len(ANCHORS), len(WSGI_NAME)
_ABSENT = object()

_INNER_PAD, _OUTER_PAD = 0x3636363636363636, 0x5C5C5C5C5C5C5C5C
_INNER_REST, _OUTER_REST = b"\x36" * 56, b"\x5c" * 56
"""What HMAC-SHA256 makes of a key of 8 bytes: it is padded with zeros to a block, and XORed with each of two bytes."""

open_batches: "ContextVar[tuple[OpenBatch, ...]]" = ContextVar("acker_open_batches", default=())
_get_open_batches = open_batches.get


def open_batch(owner: object) -> "OpenBatch | None":
    """Find the innermost open batch of this owner; a task that outlives its batch finds it closed."""
    for batch in reversed(_get_open_batches()):
        if batch.owner is owner and not batch.closed:
            return batch
    return None


def read_ids(headers: "Headers", prefix: str) -> tuple[int, ...] | None:
    """Read the header: give the root id and the edge id of each anchor in turn, none without the header.

    Gives None where `read_anchors` has to read it: it takes only a dict, list or tuple, whose names are text or bytes,
    and a value in the form that it is written in, of the topology of ``prefix``.
    """
    value = _find_value(headers)
    return () if value is _ABSENT else _read_value(value, prefix)


def _find_value(headers: "Headers") -> Any:
    """Find the header's value: `_ABSENT` without the header, None where `read_anchors` has to read it."""
    if type(headers) is dict:
        named = headers
        for name in named:
            if type(name) is not str or (len(name) in (_NAME_LENGTH, _WSGI_LENGTH) and name != ANCHORS):
                return _find_in_pairs(named.items())
        return named.get(ANCHORS, _ABSENT)
    return _find_in_pairs(headers) if type(headers) is list or type(headers) is tuple else None


def _find_in_pairs(pairs: Any) -> Any:
    """Find the header's value among names and values, whatever the names may be."""
    value: Any = _ABSENT
    try:
        for name, each in pairs:
            is_text = type(name) is str
            if not is_text and type(name) is not bytes:
                return None
            if (is_text and name == ANCHORS) or (len(name) == _NAME_LENGTH and is_anchors(name)):
                if value is not _ABSENT:
                    return None
                value = each
            elif is_text and name == WSGI_NAME:
                return None
    except (TypeError, ValueError):
        return None
    return value


def _read_value(value: Any, prefix: str) -> tuple[int, ...] | None:
    """Read the header's value, of any number of anchors."""
    if type(value) is bytes:
        value = value.decode("latin-1")
    if type(value) is not str or not value.startswith(prefix):
        return None
    root, edge = wire_ids.read_two(value, prefix)
    if root and edge:
        return root, edge
    digits = _digits_of_several(value[len(prefix) :])
    if not digits.islower():
        return None
    try:
        raw = unhexlify(digits)
    except ValueError:
        return None
    return _distinct(struct.unpack(f">{len(raw) // 8}Q", raw))


def _digits_of_several(listed: str) -> str:
    """Return the digits of several anchors one after the other; nothing where they are not in the common form."""
    count, rest = divmod(len(listed) + 1, ANCHOR_LENGTH + 1)
    if rest or not 1 < count <= MAX_ANCHORS:
        return ""
    dashes, commas = listed[16 :: ANCHOR_LENGTH + 1], listed[ANCHOR_LENGTH :: ANCHOR_LENGTH + 1]
    if dashes != "-" * count or commas != "," * (count - 1):
        return ""
    digits = listed.replace(",", "").replace("-", "")
    return digits if len(digits) == 32 * count else ""


def split_ids(ids: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    """Return the root id and the edge id of the first anchor, zeros without any, and those of the others in turn."""
    return (ids[0], ids[1], ids[2:]) if ids else (0, 0, ())


def _distinct(ids: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the ids of several anchors; None where one is zero, or an anchor is named twice."""
    anchors = set(zip(ids[::2], ids[1::2], strict=True))
    return ids if 0 not in ids and 2 * len(anchors) == len(ids) else None


class EdgeSet:
    """An anchor and its children so far.

    ``ack_val`` is its own edge id XOR those of all children, ``outstanding`` the children less the edge itself; the
    spout's edge, which is zero, stands for no edge. ``children`` are the edges of all children. With ``numbered``,
    children without a key get their number as key.
    """

    __slots__ = (
        "_component",
        "_inner",
        "_keys",
        "_numbered",
        "_outer",
        "ack_val",
        "children",
        "edge_id",
        "outstanding",
        "root_id",
        "unkeyed",
    )

    _inner: bytes
    _outer: bytes

    def __init__(self, root_id: int, edge_id: int, component: str, numbered: bool = False) -> None:  # noqa: FBT001, FBT002
        self.begin(root_id, edge_id, component, numbered)

    def begin(self, root_id: int, edge_id: int, component: str, numbered: bool) -> None:  # noqa: FBT001 - by position, which costs less
        """Make it the edge set of an anchor without children."""
        self.root_id = root_id
        self.edge_id = edge_id
        self.ack_val = edge_id
        self.children: list[int] = []
        self.outstanding = -1 if edge_id else 0
        self.unkeyed = 0
        self._component = component
        self._numbered = numbered
        self._keys: set[str] = set()
        self._inner = b""

    def has_key(self, key: str | None) -> bool:
        """Whether a child has this key already."""
        return key in self._keys

    def choose_key(self, key: str | None, *, ahead: int = 0) -> str | None:
        """Return a child's key: its own, else its number if children are numbered, else None."""
        return f"#{self.unkeyed + ahead}" if key is None and self._numbered else key

    def derive(self, key: str) -> int:
        """Derive the edge id of the child with this key, so that a re-run gives the same; see `derive_edge`.

        What HMAC puts before the key, which is the same for every child, is kept.
        """
        if not self._inner:
            root, message = self.root_id, wire_ids.id_bytes(self.edge_id) + self._component.encode() + b"\0"
            self._inner = wire_ids.id_bytes(root ^ _INNER_PAD) + _INNER_REST + message
            self._outer = wire_ids.id_bytes(root ^ _OUTER_PAD) + _OUTER_REST
        digest = sha256(self._outer + sha256(self._inner + key.encode()).digest()).digest()
        edge = wire_ids.first_id(digest)
        if not edge:
            edge = derive_edge(root_id=self.root_id, parent_edge=self.edge_id, component=self._component, name=key)
        return edge

    def add_child(self, key: str | None) -> int:
        """Add a child of this parent alone, and give its edge id: derived from its key, or random without one.

        Raises `DuplicateKey`.
        """
        if type(key) is not str:
            validate.text("the child's key", key)
        chosen = key if key is not None or not self._numbered else f"#{self.unkeyed}"
        if chosen is None:
            edge = draw_id()
        elif chosen in self._keys:
            raise duplicate_key(chosen)
        else:
            edge = self.derive(chosen)
            self._keys.add(chosen)
        self.ack_val ^= edge
        self.outstanding += 1
        self.children.append(edge)
        if key is None:
            self.unkeyed += 1
        return edge

    def add(self, edge: int, key: str | None, *, keyed: bool) -> None:
        """Add a child; not ``keyed`` if its key is its number, or None."""
        self.ack_val ^= edge
        self.outstanding += 1
        self.children.append(edge)
        self.unkeyed += not keyed
        if key is not None:
            self._keys.add(key)


def add_child(parents: "Sequence[EdgeSet]", key: str | None) -> list[int]:
    """Anchor one child to all these parents: give the root id and the new edge id of each in turn.

    The same parent twice gives two edges. Raises `DuplicateKey` and `TooManyAnchors`, and then no parent has a new
    child.
    """
    if len(parents) == 1:
        return [parents[0].root_id, parents[0].add_child(key)]
    validate.text("the child's key", key)
    keys = [parent.choose_key(key, ahead=parents[:at].count(parent)) for at, parent in enumerate(parents)]
    children = [
        (parent, chosen, draw_id() if chosen is None else parent.derive(chosen))
        for parent, chosen in zip(parents, keys, strict=True)
    ]
    _refuse_duplicates(children)
    check_count(len(children))
    for parent, chosen, edge in children:
        parent.add(edge, chosen, keyed=key is not None)
    return [id_ for parent, _, edge in children for id_ in (parent.root_id, edge)]


def _refuse_duplicates(children: "Sequence[tuple[EdgeSet, str | None, int]]") -> None:
    """A derived id depends on nothing but parent, component and key: twice the same would cancel in the XOR."""
    for at, (parent, key, _) in enumerate(children):
        if key is None:
            continue
        if parent.has_key(key):
            raise duplicate_key(key)
        if any(other is parent and other_key == key for other, other_key, _ in children[:at]):
            raise DuplicateKey(f"a child with the key {key!r} is anchored to the same tuple twice; leave the key out")


def duplicate_key(key: str) -> DuplicateKey:
    """Return the error for a second child with this key."""
    return DuplicateKey(f"a child with the key {key!r} exists already; each child needs a key of its own")


class FoldedAck:
    """A buffered ack, or several of one root that are one: the XOR of their ack vals, the sum of their counts.

    ``acks`` counts them. ``edge_id`` is zero for several, and ``edges`` has each of theirs, with its number from zero
    on. A ``component`` of None is not the same for all.
    """

    __slots__ = ("ack_val", "acks", "component", "edge_id", "edges", "outstanding", "root_id")

    root_id: int
    ack_val: int
    outstanding: int
    edge_id: int
    component: str | None
    acks: int
    edges: id_map.IdMap

    def operation(self) -> Ack:
        """Return it as an operation."""
        return Ack(
            root_id=self.root_id,
            ack_val=self.ack_val,
            outstanding=self.outstanding,
            edge_id=self.edge_id or None,
            component=self.component,
        )


class FoldedOperations:
    """Operations in the order in which the program gave them; `fold_ack` folds the acks of one root.

    Only acks of distinct edges fold: the same edge acked twice stays two operations, as the state machine demands. An
    ack that names its children, as those of traced roots and of dropped tuples do, does not fold either.
    An operation of another kind, or one that is not to be folded, closes its root's fold, so later acks stay behind it.
    """

    __slots__ = ("_folds", "records")

    def __init__(self, operations: "Iterable[Operation]" = ()) -> None:
        self.records: list[FoldedAck | Operation] = []
        self._folds = id_map.new_map()  # of each root the index of its fold, or _CLOSED
        self.add(operations)

    def __len__(self) -> int:
        return len(self.records)

    def holds_any(self, roots: "set[int]") -> bool:
        """Whether an operation is of one of these roots."""
        return any(id_map.find(self._folds, root, _NEVER) != _NEVER for root in roots)

    def operations(self) -> "BufferedOperations":
        """Return the operations so far."""
        return BufferedOperations(self.records)

    def add(self, operations: "Iterable[Operation]") -> None:
        """Add operations as they are."""
        for operation in operations:
            id_map.put(self._folds, operation.root_id, _CLOSED)
            self.records.append(operation)

    def add_acks(
        self,
        acks: "Acks",
        component: str,
        *,
        fold: bool,
        is_traced: "Callable[[int], bool]",
        dropped: bool = False,
    ) -> None:
        """Add the acks of one tuple, folded or as they are; those of traced roots name their children.

        Those of a ``dropped`` tuple are never folded: the service counts them.
        """
        ids, edges = acks
        add = self.fold_ack if fold else self.add_ack
        for at in range(0, len(ids), 2):
            root, edge = ids[at], ids[at + 1]
            own = None if edges is None else edges[at // 2]
            ack_val, outstanding = (edge, -1) if own is None else (own.ack_val, own.outstanding)
            if dropped or is_traced(root):
                named = Ack(
                    root_id=root,
                    ack_val=ack_val,
                    outstanding=outstanding,
                    edge_id=edge,
                    component=component,
                    children=() if own is None else tuple(own.children),
                    dropped=dropped,
                )
                self.add([named])
            else:
                add(root, edge, ack_val, outstanding, component)

    def add_ack(self, root: int, edge: int, ack_val: int, outstanding: int, component: str | None) -> None:
        """Add an ack as it is."""
        id_map.put(self._folds, root, _CLOSED)
        self.fold_ack(root, edge, ack_val, outstanding, component)
        id_map.put(self._folds, root, _CLOSED)

    def fold_ack(self, root: int, edge: int, ack_val: int, outstanding: int, component: str | None) -> None:
        """Add an ack to the fold of its root, unless that has its edge already or its count would leave its 32 bits.

        The component stays if it is that of all.
        """
        at = len(self.records)
        before = id_map.claim(self._folds, root, at)
        if before != at:
            if before != _CLOSED and self._add_to_fold(before, edge, ack_val, outstanding, component):
                return
            id_map.put(self._folds, root, at)
        fold = FoldedAck.__new__(FoldedAck)
        fold.root_id = root
        fold.ack_val = ack_val
        fold.outstanding = outstanding
        fold.edge_id = edge
        fold.component = component
        fold.acks = 1
        self.records.append(fold)

    def _add_to_fold(self, at: int, edge: int, ack_val: int, outstanding: int, component: str | None) -> bool:
        """Add an ack to the fold at this index; False if it has to stay an operation of its own."""
        fold: Any = self.records[at]
        count = fold.outstanding + outstanding
        if not MIN_OUTSTANDING <= count <= MAX_OUTSTANDING:
            return False
        if fold.acks == 1:
            fold.edges = id_map.new_map()
            id_map.put(fold.edges, fold.edge_id, 0)
        if id_map.claim(fold.edges, edge, fold.acks) != fold.acks:
            return False
        fold.acks += 1
        fold.ack_val ^= ack_val
        fold.outstanding = count
        fold.edge_id = 0
        if fold.component is not component and fold.component != component:
            fold.component = None
        return True


class BufferedOperations(Sequence["Operation"]):
    """Operations as a sequence that makes each object only when it is looked at, since most never are."""

    __slots__ = ("_records",)

    def __init__(self, records: "list[FoldedAck | Operation]") -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> "Operation": ...
    @overload
    def __getitem__(self, index: slice) -> "BufferedOperations": ...
    def __getitem__(self, index: int | slice) -> "Operation | BufferedOperations":
        if isinstance(index, slice):
            return BufferedOperations(self._records[index])
        return _operation(self._records[index])

    def __iter__(self) -> "Iterator[Operation]":
        return map(_operation, self._records)

    def packed(self) -> bytes:
        """Write them as a packed batch, as `encode_packed` does."""
        return pack(self._records)


def _operation(record: "FoldedAck | Operation") -> "Operation":
    return record.operation() if isinstance(record, FoldedAck) else record


def pack(records: "list[FoldedAck | Operation]") -> bytes:
    """Write operations as a packed batch, as `encode_packed` does."""
    writer = PackedWriter()
    numbers, packed = writer.numbers, writer.records
    last, number = None, 0
    for each in records:
        if not isinstance(each, FoldedAck):
            writer.add(each)
            continue
        fold = each
        if fold.component is not last:
            last = fold.component
            number = 0 if last is None else numbers.setdefault(last, len(numbers) + 1)
        wire_ids.pack_ack(packed, fold.root_id, fold.ack_val, fold.edge_id, fold.outstanding, number)
    return writer.finish()


class TopologySession:
    """Has what is known of its topology, ``cached_info``, None until it was read; see `RetrySession`."""

    __slots__ = ("cached_info",)

    def __init__(self) -> None:
        self.cached_info: Info | None = None


class OpenBuffer:
    """The acks of one client that are not frozen into a request yet, and what an ack has to look at besides.

    ``is_lingering`` says whether acks are buffered; if not, each is a request of its own. ``is_flushing`` says whether
    a flusher runs, ``frozen_operations`` how many operations are in requests; ``failures`` are raised by the next call.
    Hold it, ``with buffer.held``, to change what is buffered.
    """

    __slots__ = (
        "batch_size",
        "buffer_size",
        "failures",
        "folded",
        "frozen_operations",
        "is_flushing",
        "is_lingering",
        "lock",
    )

    failures: "list[Failure]"

    def __init__(self, *, batch_size: int, buffer_size: int) -> None:
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self.is_lingering = True
        self.clear()

    def clear(self) -> None:
        """Drop everything, as in the child of a fork: the parent sends what it has buffered."""
        self.lock = locks.new_lock()
        self.folded = FoldedOperations()
        self.failures = []
        self.frozen_operations = 0
        self.is_flushing = False

    @property
    def held(self) -> "AbstractContextManager[object]":
        """What holds it for the length of a ``with`` block, which an interrupt leaves, too."""
        return self.lock if locks.IS_INTERPRETED else self  # what __enter__ has taken is lost if it is interrupted

    def __enter__(self) -> None:
        locks.acquire(self.lock)

    def __exit__(self, *_: object) -> None:
        locks.release(self.lock)

    def raise_failures(self) -> None:
        """Raise `OperationsLost` for what was given up since the last call."""
        raise NotImplementedError


class TupleContext:
    """What all tuples of one client share; ``prefix`` is that of their header, ``driver`` runs flows.

    ``info`` is what is known of the topology, and ``folds`` whether acks fold by it, as of the last ack.
    ``tuple_class`` is that of its tuples; ``make_tuple(headers, **fields)``, if given, makes them of a subclass.
    """

    __slots__ = (
        "_components",
        "buffer",
        "driver",
        "folds",
        "info",
        "make_tuple",
        "prefix",
        "session",
        "submitter",
        "topology",
        "tuple_class",
    )

    def __init__(
        self,
        *,
        topology: str,
        prefix: str,
        submitter: "Submitter",
        session: TopologySession,
        buffer: OpenBuffer,
        driver: Any,
        tuple_class: "type[ReceivedTuple]",
    ) -> None:
        self.topology = topology
        self.prefix = prefix
        self.submitter = submitter
        self.session = session
        self.buffer = buffer
        self.driver = driver
        self.tuple_class = tuple_class
        self.make_tuple: Callable[..., Any] | None = None
        self.info: Info | None = None
        self.folds = False
        self._components: set[str] = set()  # names that were checked

    def receive(self, headers: "Headers", component: str, on_error: "OnError", repeatable: bool) -> Any:  # noqa: FBT001 - by position, which costs less
        """Return the tuple of a received message. Raises `InvalidHeader` and `UsageError`."""
        if on_error != "fail":
            validate.one_of("on_error", on_error, "fail", "leave_open")
        value = _find_value(headers)
        root, edge = wire_ids.read_two(value, self.prefix)
        more: tuple[int, ...] = ()
        if not root or not edge:
            root, edge, more = split_ids(self._read_ids(headers, value))
        if type(component) is not str or component not in self._components:
            self._check_component(component)
        if not root:
            self.submitter.count_untracked()
        if self.make_tuple is not None:
            ids = (root, edge, *more) if root else ()
            return self.make_tuple(
                headers, context=self, ids=ids, component=component, on_error=on_error, repeatable=repeatable
            )
        tuple_class = self.tuple_class
        made: ReceivedTuple = tuple_class.__new__(tuple_class)
        made.begin(self, root, edge, more, component, on_error, repeatable)
        return made

    def ack(self, tup: "ReceivedTuple", flush: bool) -> "Remaining":  # noqa: FBT001
        """Ack a tuple, which the caller flushes next if ``flush``.

        Raises `OperationsLost` for earlier acks, and then does nothing; and `UsageError`.
        """
        if not isinstance(tup, ReceivedTuple):
            raise validate.no_tuple(tup)
        if self.buffer.failures:
            self.buffer.raise_failures()
        own = tup
        return own.submit_ack(self, False, flush)  # noqa: FBT003

    def follow(self, info: "Info | None") -> None:
        """Note what is known of the topology, and whether acks of its roots fold that are not traced by hand."""
        self.folds = info is not None and not info.dedupes and info.trace <= 0
        self.info = info  # last: another thread that sees it goes by what was noted

    def _read_ids(self, headers: "Headers", value: Any) -> tuple[int, ...]:
        """Return the root id and the edge id of each anchor in turn, where the header is not of the common form."""
        ids = () if value is _ABSENT else _read_value(value, self.prefix)
        return read_anchors(headers, topology=self.topology).ids if ids is None else ids

    def _check_component(self, component: str) -> None:
        validate.name("component", component)
        if len(self._components) < MAX_CHECKED_COMPONENTS:
            self._components.add(component)


class ReceivedTuple:
    """A tuple's way from its header to its ack; `BaseTuple` has the rest.

    ``repeatable`` says that a re-run makes the same children in the same order: then children without a key are
    numbered. Else their edges are random.
    """

    __slots__ = (
        "_around",
        "_context",
        "_edge",
        "_edges",
        "_end",
        "_keys_needed",
        "_made_by",
        "_more",
        "_root",
        "component",
        "on_error",
        "repeatable",
    )

    _context: TupleContext
    _root: int  # of the first anchor; zero without any
    _edge: int
    _more: tuple[int, ...]  # root id and edge id of each further anchor in turn
    _edges: list[EdgeSet] | None  # made with the first child
    _end: str
    _keys_needed: str
    _made_by: object  # the thread or task, of a repeatable tuple
    _around: "AnchorParent | None"
    component: str
    on_error: "OnError"
    repeatable: bool

    def begin(
        self,
        context: TupleContext,
        root: int,
        edge: int,
        more: tuple[int, ...],
        component: str,
        on_error: "OnError",
        repeatable: bool,  # noqa: FBT001 - by position, which costs less
    ) -> None:
        """Make it the open tuple of these anchors; ``more`` has the root id and the edge id of each further one."""
        self._context = context
        self._root = root
        self._edge = edge
        self._more = more
        self.component = component
        self.on_error = on_error
        self.repeatable = repeatable
        self._edges = None
        self._end = ""
        self._keys_needed = ""
        self._around = None
        if repeatable:
            self._made_by = _execution()

    def __str__(self) -> str:
        listed = ",".join(map(str, self.anchors.anchors)) or "without anchors"
        return f"tuple of {self.component!r} ({listed})"

    @property
    def anchors(self) -> "Anchors":
        """The anchors of its message."""
        return from_ids(self._context.topology, self._ids())

    @property
    def tracked(self) -> bool:
        """Whether it has anchors."""
        return self._root != 0

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child, and give the header for its message; empty if the tuple is not tracked. See `anchor`."""
        parents, prefix = self.parents(key), self._context.prefix
        if len(parents) != 1:
            return write_header(prefix, add_child(parents, key))
        own = parents[0]
        return {ANCHORS: wire_ids.write_two(prefix, own.root_id, own.add_child(key))}

    def parents(self, key: str | None) -> list[EdgeSet]:
        """Return its edge sets as parents of a new child. Raises `TupleClosed`, and `UsageError` if it needs a key."""
        if self._end:
            raise self._closed_error("anchored to")
        if key is None and self._root and (self._keys_needed or self.repeatable):
            self._check_keyless()
        if self._edges is None:
            self._edges = self._make_edges(self.component)
        return self._edges

    def require_keys(self, reason: str) -> None:
        """Refuse children without a key from now on."""
        self._keys_needed = reason

    def open_block(self) -> "Generator[Any, Any, None] | None":
        """Begin its block.

        With ``on_error="leave_open"`` a redelivered message gives a child without a key another edge, and if the first
        was acked the root times out. Without a dedupe window such a child is refused, so the topology is read first.
        """
        context = self._context
        if context.buffer.failures:
            context.buffer.raise_failures()
        if self.on_error == "fail" or self.repeatable or not self._root:
            return None
        return context.submitter.require_keys(self)

    def complete(self, *, dropped: bool = False) -> "Remaining":
        """Ack it at the end of its block, unless the block has ended it."""
        return None if self._end else self.submit_ack(self._context, dropped, False)  # noqa: FBT003

    def submit_ack(self, context: TupleContext, dropped: bool, flush: bool) -> "Remaining":  # noqa: FBT001
        """Do all of an ack that needs no effect, and return the flow of what is left, nearly always None.

        The tuple is closed only when nothing can go wrong any more before its acks are in flight. Acks that linger fold
        unless the topology dedupes, which goes by the edge. With ``flush`` no flusher is started: the caller flushes
        next.
        """
        info, buffer = context.session.cached_info, context.buffer
        if info is not context.info:
            context.follow(info)
        batch = open_batch(context.submitter) if _get_open_batches() else None
        is_full = len(buffer.folded.records) + buffer.frozen_operations >= buffer.buffer_size
        if info is None or not buffer.is_lingering or (is_full and batch is None):
            return context.submitter.ack_otherwise(self, context, batch, dropped=dropped)
        if self._end:
            raise self._closed_error("acked")
        self._end = "acked"
        if batch is not None:
            self._add_to(batch.operations, info, dropped=dropped)
            return None
        lock = buffer.lock
        if locks.IS_INTERPRETED:
            with lock:
                must_flush = self._buffer(buffer, context, info, dropped)
        else:
            locks.acquire(lock)
            try:
                must_flush = self._buffer(buffer, context, info, dropped)
            finally:
                locks.release(lock)
        return context.submitter.attend() if must_flush and self._root and not flush else None

    def _buffer(self, buffer: OpenBuffer, context: TupleContext, info: "Info", dropped: bool) -> bool:  # noqa: FBT001
        """Add its acks to a buffer that is held, and return whether that is to be flushed."""
        folded, root, edges = buffer.folded, self._root, self._edges
        before = len(folded.records)
        if dropped or self._more or not context.folds or not root & MARK_MASK:
            self._add_to(folded, info, dropped=dropped)
        elif edges is None:
            folded.fold_ack(root, self._edge, self._edge, -1, self.component)
        else:
            own = edges[0]
            folded.fold_ack(root, self._edge, own.ack_val, own.outstanding, self.component)
        added, in_last_batch = len(folded.records) - before, before % buffer.batch_size
        return not buffer.is_flushing or in_last_batch + added >= buffer.batch_size

    def _add_to(self, operations: FoldedOperations, info: "Info", *, dropped: bool) -> None:
        """Add its acks where they may be several, of a traced root, or not to be folded."""
        acks, fold = (self._ids(), self._edges), not info.dedupes
        operations.add_acks(acks, self.component, fold=fold, is_traced=info.is_traced, dropped=dropped)

    def take_acks(self) -> "Acks":
        """Close the tuple, and return what it acks.

        It is closed first: an interrupt in between loses the ack, and never lets it be sent twice.
        """
        if self._end:
            raise self._closed_error("acked")
        self._end = "acked"
        return self._ids(), self._edges

    def _ids(self) -> tuple[int, ...]:
        return (self._root, self._edge, *self._more) if self._root else ()

    def _make_edges(self, name: str) -> list[EdgeSet]:
        if self._root and not self._more:
            own = EdgeSet.__new__(EdgeSet)
            own.begin(self._root, self._edge, name, self.repeatable)
            return [own]
        ids = self._ids()
        return [EdgeSet(ids[at], ids[at + 1], name, self.repeatable) for at in range(0, len(ids), 2)]

    def _closed_error(self, use: str) -> TupleClosed:
        return TupleClosed(f"{self} was {self._end} and cannot be {use} any more")

    def _check_keyless(self) -> None:
        """The number of a child is its place in the order of one thread or task; beside it there is no order."""
        if self._keys_needed:
            raise UsageError(f"{self} has a child without a key; {self._keys_needed}")
        if self.repeatable and self._made_by != _execution():
            raise UsageError(
                f"{self} is repeatable, and a child is made in another thread or task than it was received in: "
                "give this child a key"
            )


def _execution() -> tuple[int, object]:
    """Identify the running thread, and the running task of asyncio if it is used (without importing it)."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        task = None
    return threading.get_ident(), task
