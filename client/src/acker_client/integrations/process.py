"""Anchors in the environment of processes: how a process that `acker run` has started makes children of its edge. ::

    subprocess.run([*acker_run, "make"], env=child_environment(tup, key="build"))  # a process as a child of a tuple

    with acker.receive(received_headers(key="count"), component="count"):  # in a process within `acker run`
        ...

``ACKER_ANCHORS`` is the header's value. A process that has it without ``ACKER_CHILDREN`` owns the edge, and acks it. A
process within `acker run` finds ``ACKER_CHILDREN`` too, the path of a file: the edge belongs to the run, which acks it
when its command has ended, with all edges in the file. So such a process derives a child, adds its edge to the file
before it uses it, and acks that one. For POSIX systems.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from acker_protocol.anchors import Anchors, from_ids, parse_anchors
from acker_protocol.routes import ANCHORS

from acker_client._core.hot_path import EdgeSet, add_child, duplicate_key
from acker_client.errors import InvalidHeader, UsageError
from acker_client.propagate import AnchorParent

__all__ = ["ANCHORS_VARIABLE", "CHILDREN_VARIABLE", "ChildrenFile", "child_environment", "received_headers"]

ANCHORS_VARIABLE = "ACKER_ANCHORS"
"""The environment variable with the value of the header ``Acker-Anchors``."""

CHILDREN_VARIABLE = "ACKER_CHILDREN"
"""The environment variable with the path of the file in which the children of a run are listed."""


def child_environment(
    parent: AnchorParent, key: str | None = None, *, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Anchor a child to a tuple or root, and give the environment of the process that acks it.

    That is ``environment``, by default this process's own, with the child's anchors. Raises `DuplicateKey` and
    `TupleClosed`.
    """
    inherited = os.environ if environment is None else environment
    others = {name: value for name, value in inherited.items() if name not in (ANCHORS_VARIABLE, CHILDREN_VARIABLE)}
    headers = parent.headers(key)
    return others | {ANCHORS_VARIABLE: headers[ANCHORS]} if headers else others


def received_headers(key: str | None = None, *, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the header of the edge that this process acks, for `Acker.receive`; empty if it is not tracked.

    Within `acker run` it is a new child of the run's edge: with a ``key`` a re-run gets the same edge, without one it
    is random. Else the edge is the process's own, and the key means nothing. Raises `DuplicateKey` if a child with this
    key was acked, `InvalidHeader`, and `UsageError` if the run has ended.
    """
    found = os.environ if environment is None else environment
    value = found.get(ANCHORS_VARIABLE)
    if not value:
        return {}
    children = children_of(value, found)
    return parse_anchors(value).headers() if children is None else children.add(key).headers()


def children_of(anchors: str, environment: Mapping[str, str]) -> "ChildrenFile | None":
    """Return the file for children of these anchors; None where this process owns them.

    A process that was given other anchors than the run around it owns them, though it inherits the run's file.
    """
    path = environment.get(CHILDREN_VARIABLE)
    if not path:
        return None
    children = ChildrenFile(Path(path))
    return children if children.owner() == parse_anchors(anchors) else None


@dataclass(slots=True, kw_only=True)
class _Records:
    """What the file says: whose children it lists, the children, and those that were acked."""

    descriptor: int
    size: int = 0
    component: str = ""
    owner: str = ""
    needs_keys: bool = False
    children: list[str] = field(default_factory=list)
    acked: set[str] = field(default_factory=set)

    def read(self, text: str) -> None:
        """Read the lines. Raises `UsageError` for any that cannot be read."""
        *lines, rest = text.split("\n")
        self.size = len(text.encode())
        for line in lines:
            self._read_line(line)
        if rest or not self.owner:
            raise UsageError("the file of children is damaged; a line was not written to its end")

    def append(self, line: str) -> None:
        """Add a line, wholly or not at all. Raises `OSError`, as for a full disk."""
        data = f"{line}\n".encode()
        try:
            written = os.write(self.descriptor, data)
        except OSError:
            written = 0
        if written < len(data):
            os.ftruncate(self.descriptor, self.size)
            raise OSError("the file of children cannot be written")
        self.size += len(data)

    def _read_line(self, line: str) -> None:
        match line.partition(" "):
            case "component", _, component:
                self.component = component
            case "owner", _, owner:
                self.owner = owner
            case "child", _, child:
                self.children.append(child)
            case "acked", _, child:
                self.acked.add(child)
            case "keys", _, _:
                self.needs_keys = True
            case _:
                raise UsageError(f"the file of children is damaged; it has the line {line[:80]!r}")


@dataclass(frozen=True, slots=True)
class ChildrenFile:
    """The file that lists the children of one run, for the processes within it. Each use locks it.

    It has lines: ``component NAME`` and ``owner HEADER`` of the run, ``keys`` if each child needs a key,
    ``child HEADER`` for each child, ``acked HEADER`` once a child's ack is about to be sent. The end of the run
    removes it.
    """

    path: Path

    @classmethod
    def create(cls, owner: Anchors, *, component: str, needs_keys: bool) -> "ChildrenFile":
        """Make the file of a run, readable by this user alone. Raises `OSError`."""
        descriptor, path = tempfile.mkstemp(prefix="acker-children-")
        lines = [f"component {component}", f"owner {_value(owner)}", *(["keys"] if needs_keys else [])]
        with open(descriptor, "w") as file:  # noqa: PTH123 - it is a descriptor
            file.write("".join(f"{line}\n" for line in lines))
        return cls(Path(path))

    def owner(self) -> Anchors:
        """Return the anchors of the run. Raises `UsageError` if it has ended."""
        with self._locked() as records:
            return parse_anchors(records.owner)

    def add(self, key: str | None) -> Anchors:
        """Derive a child with this key, random without one, and list it before it is used.

        With the key of a child that is listed and was not acked it is that child again: its work is repeated. Raises
        `DuplicateKey` if it was acked, `UsageError` if the run has ended or the child needs a key, and `OSError`.
        """
        with self._locked() as records:
            if records.needs_keys and key is None:
                raise UsageError(
                    "give each child a key: with --on-error leave-open a redelivery would give it another edge, and "
                    "the topology has no dedupe_window"
                )
            child = _derive(parse_anchors(records.owner), component=records.component, key=key)
            value = _value(child)
            if value in records.acked:
                raise duplicate_key(key or "")
            if value not in records.children:
                records.append(f"child {value}")
            return child

    def claim_ack(self, child: Anchors) -> bool:
        """Return whether a child's ack may be sent: only once, since without a dedupe window a second undoes it."""
        with suppress(FileNotFoundError), self._open() as records:
            value = _value(child)
            if value in records.acked:
                return False
            records.append(f"acked {value}")
        return True

    def close(self) -> list[Anchors]:
        """Remove the file, and give the children; no process can add another then.

        Raises `UsageError` for a damaged file, or one that was removed: then it is unknown which children there are.
        """
        try:
            with self._locked() as records:
                self.path.unlink()
                return [parse_anchors(child) for child in dict.fromkeys(records.children)]
        except InvalidHeader as error:
            raise UsageError(f"the file of children is damaged: {error}") from None
        finally:
            self.path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[_Records]:
        try:
            with self._open() as records:
                yield records
        except FileNotFoundError:
            raise self._ended() from None

    @contextmanager
    def _open(self) -> Iterator[_Records]:
        with self.path.open("r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not os.fstat(file.fileno()).st_nlink:
                raise FileNotFoundError(self.path)  # removed while this process waited for the lock
            records = _Records(descriptor=file.fileno())
            records.read(file.read().decode(errors="replace"))
            yield records

    def _ended(self) -> UsageError:
        return UsageError(
            f"the run that this process belongs to has ended ({CHILDREN_VARIABLE}={self.path}): a child can no longer "
            "be added; let the command wait for the processes that it starts"
        )


def _derive(owner: Anchors, *, component: str, key: str | None) -> Anchors:
    parents = [EdgeSet(each.root_id, each.edge_id, component) for each in owner.anchors]
    return from_ids(owner.topology, tuple(add_child(parents, key=key)))


def _value(anchors: Anchors) -> str:
    return anchors.headers()[ANCHORS]
