"""Which faults befall which round: drawn from the seed alone, so that a schedule can be printed before it is run."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

STORES = ("valkey", "valkey-sentinel", "valkey-cluster")
FAULTS_OF_A_ROUND = 30

ANYWHERE = {
    "service killed": 5,
    "service stopped": 2,
    "service frozen": 6,
    "process of the service killed": 3,
    "server of the store killed": 8,
    "server of the store frozen": 8,
    "answers of the store dropped": 6,
    "answers of the store torn": 6,
    "answers of the store delayed": 5,
    "store unreachable": 4,
    "answers to clients dropped": 6,
    "answers to clients delayed": 4,
    "client killed": 5,
    "client frozen": 3,
    "reader killed": 4,
    "disk full": 4,
}
WITH_REPLICAS = {"primary frozen until it is replaced": 3, "failover asked for": 5}
IN_A_CLUSTER = {"slot moved at once": 8, "slot moved key by key": 6}
WITH_OWN_CLOCKS = {"clock of the store stepped": 12}
"""The kinds of faults, and how often each is drawn beside the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of fault; ``which`` chooses among what it may befall, ``how_long`` between least and most, both below 1.

    ``after_s`` is how long the load goes on before it.
    """

    kind: str
    which: float
    how_long: float
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A store of its own, and a service of two replicas, the first of which has so many ``processes``.

    With ``own_clocks`` each server of the store has a clock of its own, which may be stepped.
    """

    number: int
    seed: int
    store: str
    processes: int
    own_clocks: bool = False
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        """Its line in the schedule."""
        kinds = ", ".join(fault.kind for fault in self.faults)
        clocks = ", own clocks" if self.own_clocks else ""
        return f"round {self.number}: {self.store}, --processes {self.processes}{clocks}: {kinds}"


def kinds_of(store: str, *, own_clocks: bool = False) -> dict[str, int]:
    """Return the faults that may befall a kind of store."""
    kinds = ANYWHERE | (WITH_OWN_CLOCKS if own_clocks else {})
    kinds = kinds if store == "valkey" else kinds | WITH_REPLICAS
    return kinds | IN_A_CLUSTER if store.endswith("-cluster") else kinds


def rounds(
    seed: int, *, stores: tuple[str, ...] = STORES, faults_of_a_round: int = FAULTS_OF_A_ROUND
) -> Iterator[Round]:
    """Return the rounds of a seed, without end."""
    number = 0
    while True:
        chance = random.Random(f"{seed} {number}")
        store = stores[number % len(stores)]
        triple = number // len(stores)
        processes, own_clocks = 1 + triple % 2, triple % 3 == 2
        kinds = kinds_of(store, own_clocks=own_clocks)
        drawn = chance.choices([*kinds], weights=[*kinds.values()], k=faults_of_a_round)
        faults = tuple(
            Fault(kind=kind, which=chance.random(), how_long=chance.random(), after_s=chance.uniform(0.2, 1.5))
            for kind in drawn
        )
        yield Round(number=number, seed=seed, store=store, processes=processes, own_clocks=own_clocks, faults=faults)
        number += 1
