"""The trees of the load: drawn from a seed, as waves of operations, each of which is sent when the one before was."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from acker_protocol.ids import fold
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation, ResetTimeout

WAVES = 5
TIMEOUT_MS = 20_000
HELD_MS = (1_500, 6_000)
"""The message timeout of roots that are to be acked wholly, and of those that are not."""

KINDS = {"acked": 60, "held": 12, "reset": 4, "failed": 6, "all_ended": 10, "dropped": 6, "without_init": 2}
"""The kinds of trees, each with how many of a hundred there are of it."""

EARLY, AGAIN, INIT_AGAIN, CONFLICT, COUNTED = 0.15, 0.1, 0.03, 0.02, 0.7
"""The shares of trees whose acks come before their init, of acks that come again, of inits that do, of inits that
conflict, and of compact operations that tell how many edges are outstanding."""

Wave = list[Operation]


def draw_id(chance: random.Random) -> int:
    """Return the id of a root or an edge."""
    return chance.getrandbits(64) or 1


@dataclass(slots=True, kw_only=True)
class TreeDrawer:
    """Draws the trees of one client. Without ``dedupes`` no message is delivered twice, and edges have no names."""

    chance: random.Random
    spout_task: str
    other_spout_task: str
    dedupes: bool
    _number: int = field(default=0)

    def draw(self) -> list[Wave]:
        """Return the waves of the next tree."""
        (kind,) = self.chance.choices([*KINDS], weights=[*KINDS.values()])
        root_id = draw_id(self.chance)
        ends = [*self._edges(root_id)]
        init = self._init(root_id, kind, [end for end, is_first in ends if is_first])
        waves: list[Wave] = [[] for _ in range(WAVES)]
        is_early = self.chance.random() < EARLY
        if kind != "without_init":
            waves[int(is_early)].append(init)
            self._repeat_init(waves, init)
        acks = [end for end, _ in ends]
        self.chance.shuffle(acks)
        if kind in ("held", "reset"):
            acks.pop()
        if kind == "reset":
            waves[2].append(ResetTimeout(root_id=root_id))
        for at, ack in enumerate(acks):
            operation = self._end(ack, kind, is_last=at == len(acks) - 1)
            wave = self.chance.randrange(0 if is_early else 1, WAVES - 1)
            waves[wave].append(operation)
            if self.dedupes and self.chance.random() < AGAIN:
                waves[self.chance.randrange(wave, WAVES)].append(operation)
        return waves

    def _edges(self, root_id: int) -> Iterator[tuple[Ack, bool]]:
        """Return an ack of each edge of a tree, and whether the edge is one of the init."""
        waiting = [(draw_id(self.chance), 0) for _ in range(self.chance.choice((1, 1, 2, 3)))]
        while waiting:
            edge, depth = waiting.pop()
            children = [draw_id(self.chance) for _ in range(self.chance.choice((0, 0, 1, 2)) if depth < 2 else 0)]
            yield (
                Ack(
                    root_id=root_id,
                    edge_id=edge,
                    ack_val=fold((edge, *children)),
                    outstanding=len(children) - 1,
                    children=tuple(children),
                    component=f"bolt-{depth}",
                ),
                depth == 0,
            )
            waiting += [(child, depth + 1) for child in children]

    def _init(self, root_id: int, kind: str, first: list[Ack]) -> Init:
        self._number += 1
        edges = tuple(ack.edge_id for ack in first if ack.edge_id is not None)
        is_open = kind in ("held", "reset")
        return Init(
            root_id=root_id,
            spout_task=self.spout_task,
            ack_val=fold(edges),
            outstanding=len(edges),
            edges=edges,
            message_id=f"{self.spout_task}-{self._number}",
            message_timeout_ms=self.chance.randrange(*HELD_MS) if is_open else TIMEOUT_MS,
            end_on=EndOn.ALL_ENDED if kind == "all_ended" else None,
        )

    def _repeat_init(self, waves: list[Wave], init: Init) -> None:
        if self.chance.random() < INIT_AGAIN:
            waves[self.chance.randrange(WAVES)].append(init)
        if self.chance.random() < CONFLICT:
            waves[self.chance.randrange(WAVES)].append(replace(init, spout_task=self.other_spout_task))

    def _end(self, ack: Ack, kind: str, *, is_last: bool) -> Ack | Fail:
        """Return what ends an edge: an ack, compact where edges have no names, or a fail."""
        fails = (kind == "failed" and is_last) or (kind == "all_ended" and self.chance.random() < 0.3)
        if fails and kind == "failed" and self.chance.random() < 0.4:
            return Fail(root_id=ack.root_id, reason="by chance", component=ack.component)
        if fails:
            return Fail(
                root_id=ack.root_id,
                reason="by chance",
                component=ack.component,
                ack_val=ack.ack_val,
                outstanding=ack.outstanding,
                edge_id=ack.edge_id,
                children=ack.children,
            )
        if kind == "dropped" or (kind == "all_ended" and self.chance.random() < 0.1):
            ack = replace(ack, dropped=True)
        if self.dedupes:
            return ack
        outstanding = ack.outstanding if self.chance.random() < COUNTED else None
        return replace(ack, edge_id=None, children=None, outstanding=outstanding)
