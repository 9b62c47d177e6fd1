"""The sizes of a run: of a whole one, and of one that only checks that every figure can be measured."""

from dataclasses import dataclass

BATCH = 1_000
"""So many operations go in a batch, wherever batches are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How often, and on how much.

    ``pending`` is what memory is measured at, ``levels`` are the pending roots that Redis's time is measured at
    (five batches' worth or more),
    ``trees`` what a round over HTTP emits and acks, ``singles`` how many single requests a round has,
    ``acks`` how many acks the Python client makes in one, ``due`` how many
    timeouts fall due within ``due_s`` seconds, and ``few_due`` within ``few_due_s`` where little is due. ``stalled``
    fall due in an outage of ``outage_s`` seconds, after which they have ``grace_s`` seconds, or none. ``paced``
    roots end at an even pace where the delay of webhooks is measured, and ``delivered`` completions lie ready where
    it is measured how many go out a second; one of so many ``callbacks`` is changed.
    For ``sweep_s`` seconds it is watched what the tick takes to forget
    finished roots, again until ``swept`` or more are forgotten. ``mixed`` operations of both kinds go in batches of
    both, and so many times a round ``trees`` are sent to an acker that is ``watched``, to one that traces, and to one
    that does neither, twice to each. ``words`` roots are a sentence
    whose words are counted. The peers work on ``peer_roots`` roots of ``peer_tasks`` tasks each; ``grown_roots`` are
    those whose tasks publish tasks. ``batch_sizes`` are those that throughput is drawn by. Spark counts the
    words of so many ``sentences``, and sums up so many ``orders``.
    """

    rounds: int
    pending: int
    levels: tuple[int, ...]
    trees: int
    singles: int
    acks: int
    due: int
    due_s: float
    few_due: int
    few_due_s: float
    stalled: int
    outage_s: float
    grace_s: float
    sentences: int
    orders: int
    paced: int
    delivered: int
    callbacks: int
    sweep_s: float
    swept: int
    mixed: int
    watched: int
    words: int
    peer_roots: int
    peer_tasks: int
    grown_roots: int
    batch_sizes: tuple[int, ...]


FULL = Sizes(
    rounds=5,
    pending=1_000_000,
    levels=(10_000, 1_000_000),
    trees=50_000,
    singles=10_000,
    acks=100_000,
    due=200_000,
    due_s=10,
    few_due=2_000,
    few_due_s=2,
    stalled=20_000,
    outage_s=5,
    grace_s=10,
    sentences=200_000,
    orders=50_000,
    paced=5_000,
    delivered=20_000,
    callbacks=900,
    sweep_s=3.0,
    swept=50_000,
    mixed=50_000,
    watched=4,
    words=2_000,
    peer_roots=100,
    peer_tasks=20,
    grown_roots=1_000,
    batch_sizes=(1, 10, 100, 1_000, 5_000),
)
TINY = Sizes(
    rounds=2,
    pending=20_000,
    levels=(5_000, 6_000),
    trees=1_000,
    singles=32,
    acks=2_000,
    due=1_000,
    due_s=0.5,
    few_due=100,
    few_due_s=0.2,
    stalled=100,
    outage_s=3,
    grace_s=2,
    sentences=400,
    orders=200,
    paced=100,
    delivered=2_000,
    callbacks=40,
    sweep_s=0.3,
    swept=1_000,
    mixed=1_000,
    watched=1,
    words=20,
    peer_roots=4,
    peer_tasks=3,
    grown_roots=9,
    batch_sizes=(1, 10, 100, 1_000),
)
