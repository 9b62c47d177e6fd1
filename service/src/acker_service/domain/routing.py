"""Knows where a root lives, and in which order the operations of a request go there."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.messages import Init, Message

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of a request goes to one shard.

    ``given`` are the indexes of its operations as the caller gave them, ``order`` the same indexes with those of one
    root together, as the store applies them.
    """

    shard: int
    given: tuple[int, ...]
    order: tuple[int, ...]


def shard_of(root_id: int, shards: int) -> int:
    """The shard of a root."""
    return root_id % shards


def bucket_of(root_id: int, shards: int, buckets: int) -> int:
    """The small hash, within its shard, that a root lies in."""
    return root_id // shards % buckets


def split(messages: "Sequence[Message]", *, shards: int, capped: int | None) -> list[Part]:
    """Divide a request among the shards, roots in the order of their first operation.

    Where pending roots are capped, places go to inits in the order given; so roots without an init come first (they can
    only free places), then the others in the order of their first init.
    """
    roots: dict[int, list[int]] = {}
    for index, message in enumerate(messages):
        roots.setdefault(message.root_id, []).append(index)
    groups = list(roots.items())
    if capped is not None:
        groups.sort(key=lambda group: _first_init(messages, group[1]))
    parts: dict[int, list[int]] = {}
    for root_id, indexes in groups:
        parts.setdefault(shard_of(root_id, shards), []).extend(indexes)
    return [Part(shard=shard, given=tuple(sorted(order)), order=tuple(order)) for shard, order in parts.items()]


def _first_init(messages: "Sequence[Message]", indexes: list[int]) -> int:
    return next((index for index in indexes if isinstance(messages[index], Init)), -1)
