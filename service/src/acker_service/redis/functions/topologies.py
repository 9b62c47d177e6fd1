"""The functions and plain commands that read and write topologies, spout tasks and the stamps of shards.

Each function here describes one call. All configuration lies in one slot, so that it is written in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acker_service.redis import keys
from acker_service.redis.calls import Call, fcall, nothing, read
from acker_service.redis.stamp import StaleStamp, Stamp, decode_stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopology:
    """A topology as it is stored: its stamp, its configuration (JSON), and its mark ("" or a status and a time)."""

    stamp: Stamp
    document: bytes
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTopology:
    """The new stamp and the mark of a topology that was marked or unmarked."""

    stamp: Stamp
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSpouts:
    """How many spout tasks a call created, and the values of all that it named, in their order."""

    created: int
    values: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutsFull:
    """A topology has ``present`` spout tasks, and no place for all of ``new`` more; none was created."""

    present: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName:
    """A shard of an incarnation of a topology."""

    topology: str
    incarnation: str
    number: int


def topology_names() -> Call[list[str]]:
    """Read the names of all topologies, sorted."""
    return read("SMEMBERS", keys.TOPOLOGIES, decode=lambda names: sorted(name.decode() for name in names))


def read_topology(name: str) -> Call[StoredTopology | None]:
    """Read a topology; None if there is none of that name."""
    return read("HMGET", keys.topology(name), "pair", "config", "mark", decode=_topology)


def write_topology(
    name: str, *, present: Stamp | None, document: str, random_hex: str, floor: Stamp | None
) -> Call[Stamp | None]:
    """Write a configuration if ``present`` is still its stamp (None: create it), and return the new stamp, None if not.

    The new stamp is above ``floor``. ``random_hex`` are four digits of a new incarnation.
    """
    target = (keys.topology(name), keys.TOPOLOGIES)
    args = (_text(present), document, random_hex, name, _text(floor))
    return fcall("acker_write_topology_v1", target, *args, decode=_written_stamp)


def mark_topology(name: str, *, stamp: Stamp, mark: str) -> Call[MarkedTopology | None]:
    """Mark a topology for deletion, or remove the mark (""), and raise its version; None if it was changed before."""
    return fcall("acker_mark_topology_v1", (keys.topology(name),), stamp.text, mark, decode=_marked)


def remove_topology(name: str, *, stamp: Stamp) -> Call[None]:
    """Remove the configuration of a topology, if ``stamp`` is still its stamp. Idempotent."""
    target = (keys.topology(name), keys.spouts(name, stamp.incarnation), keys.TOPOLOGIES)
    return fcall("acker_remove_topology_v1", target, stamp.text, name, decode=nothing)


def read_stamp(topology: str, shard: int) -> Call[Stamp | None]:
    """Read the stamp of a shard."""
    return read("GET", keys.shard(topology, shard), decode=decode_stamp)


def stamp_shard(key: str, stamp: Stamp) -> Call[None]:
    """Stamp a shard that has no stamp or a lower one; leave any other as it is."""
    return fcall("acker_stamp_v1", (key,), stamp.text, decode=nothing)


def bury(key: str, stamp: Stamp) -> Call[None]:
    """Put a tombstone on a shard for a day, unless its stamp is above this one."""
    return fcall("acker_bury_v1", (key,), stamp.text, decode=nothing)


def is_used(key: str, stamp: Stamp) -> Call[bool]:
    """Read whether a shard may have keys with a number: what writes one also writes one without a number."""
    names = (f"{key}:{stamp.incarnation}:{name}" for name in keys.WITHOUT_NUMBER)
    return read("EXISTS", *names, decode=bool)


def sweep(
    key: str, stamp: Stamp, *, first: int, last: int, seen_sets: int, spout_indexes: int, remembers_edges: bool
) -> Call[None]:
    """Remove the keys of a shard with a tombstone: those with a number from ``first`` to ``last``.

    There are ``seen_sets`` sets of remembered requests and ``spout_indexes`` mailboxes.
    """
    limits = (seen_sets, spout_indexes, int(remembers_edges))
    return fcall("acker_sweep_v2", (key,), stamp.text, first, last, *limits, decode=nothing)


def read_spouts(topology: str, incarnation: str) -> Call[dict[str, str]]:
    """Read the values of all spout tasks of a topology by name: index, creation time and document, in one text."""
    return read("HGETALL", keys.spouts(topology, incarnation), decode=_spouts)


def read_some_spouts(topology: str, incarnation: str, names: Sequence[str]) -> Call[list[str | None]]:
    """Read the values of spout tasks, as they are named; None where there is none of a name."""

    def decode(reply: list[bytes | None]) -> list[str | None]:
        return [_optional_text(value) for value in reply]

    return read("HMGET", keys.spouts(topology, incarnation), *names, decode=decode)


def register_spouts(
    topology: str, *, stamp: Stamp, names: Sequence[str], document: str, max_spouts: int
) -> Call[RegisteredSpouts | SpoutsFull]:
    """Create those of the spout tasks that are new, all or none of them; each name is given once.

    A topology has ``max_spouts`` spout tasks at most. Decoding raises `StaleStamp` if it has another incarnation.
    """
    target = (keys.topology(topology), keys.spouts(topology, stamp.incarnation))

    def decode(reply: list[Any]) -> RegisteredSpouts | SpoutsFull:
        status, *rest = reply
        if status == b"stale":
            raise StaleStamp(keys.topology(topology), decode_stamp(*rest))
        if status == b"full":
            return SpoutsFull(present=rest[0], new=rest[1])
        return RegisteredSpouts(created=rest[0], values=[value.decode() for value in rest[1]])

    return fcall("acker_register_spouts_v1", target, stamp.text, max_spouts, document, *names, decode=decode)


def write_spout(topology: str, *, stamp: Stamp, name: str, present: str, document: str) -> Call[str | None]:
    """Write a spout task if ``present`` is still its value, and return the new value, None if not.

    Decoding raises `StaleStamp` if the topology has another incarnation.
    """
    target = (keys.topology(topology), keys.spouts(topology, stamp.incarnation))

    def decode(reply: list[bytes]) -> str | None:
        status, *values = reply
        if status == b"stale":
            raise StaleStamp(keys.topology(topology), decode_stamp(*values))
        return values[0].decode() if status == b"ok" else None

    return fcall("acker_write_spout_v1", target, stamp.text, name, present, document, decode=decode)


def mark_spout(topology: str, *, stamp: Stamp, name: str, present: str, value: str) -> Call[bool]:
    """Replace the value of a spout task, or remove it (""), and raise the topology's version.

    Gives False and changes nothing if ``present`` is no longer the value, or the topology has another incarnation.
    """
    target = (keys.topology(topology), keys.spouts(topology, stamp.incarnation))
    return fcall("acker_mark_spout_v1", target, stamp.text, name, present, value, decode=_is_ok)


def spout_index_count(topology: str) -> Call[int]:
    """Read how many spout indexes a topology has given out."""
    return read("HGET", keys.topology(topology), "next", decode=lambda count: int(count or 0))


def find_due(shards: Sequence[ShardName]) -> Call[list[ShardName]]:
    """Find the shards in which a root may be overdue; all on one server, in a cluster a single one."""
    target = tuple(keys.due(shard.topology, shard.number, shard.incarnation) for shard in shards)

    def decode(reply: list[Any]) -> list[ShardName]:
        return [shards[int(number) - 1] for number in reply[1:]]

    return fcall("acker_due_v1", target, decode=decode, confirm=False)


def note_worker_alive() -> Call[None]:
    """Note for ten seconds that a worker expires roots."""
    return fcall("acker_note_worker_alive_v1", (keys.TOPOLOGIES,), decode=nothing, confirm=False)


def worker_seen() -> Call[bool]:
    """Check whether a worker expired roots in the last ten seconds."""
    return read("EXISTS", keys.TICKED, decode=bool)


def barrier(key: str) -> Call[None]:
    """Write where a key lives, so that waiting for replicas covers all that was written there before."""
    return fcall("acker_barrier_v1", (key,), decode=nothing)


def _topology(reply: list[bytes | None]) -> StoredTopology | None:
    raw_stamp, document, mark = reply
    stamp = decode_stamp(raw_stamp)
    if stamp is None:
        return None
    return StoredTopology(stamp=stamp, document=document or b"", mark=(mark or b"").decode())


def _written_stamp(reply: list[bytes]) -> Stamp | None:
    status, *rest = reply
    return decode_stamp(*rest) if status == b"ok" else None


def _marked(reply: list[bytes]) -> MarkedTopology | None:
    status, *rest = reply
    if status != b"ok":
        return None
    stamp, mark = rest
    return MarkedTopology(stamp=Stamp(stamp.decode()), mark=mark.decode())


def _spouts(reply: Any) -> dict[str, str]:
    """RESP3 gives a dict; RESP2 a flat list."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs}


def _optional_text(reply: bytes | None) -> str | None:
    return reply.decode() if reply else None


def _is_ok(reply: list[bytes]) -> bool:
    status, *_ = reply
    return status == b"ok"


def _text(stamp: Stamp | None) -> str:
    return stamp.text if stamp else ""


def remove_tombstone(shard: str) -> Call[int]:
    """Remove what a deleted shard leaves for a while to refuse late operations; says how many keys were removed.

    Only for a topology that nobody else has used. The login needs DEL; without it the tombstone ends itself.
    """
    return Call(key=shard, name="DEL", command=("DEL", shard), decode=int)
