"""What users are shown of a run: the tables of the README and of the pages on performance and comparison.

Every figure is read from a line of the run, and has two digits that count, so that pages which show the same figure
show it alike. `bench.page` says where each table stands.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench import client, delivery, http_batches, memory, peers_cost, queues, single, timeouts, word_tree
from bench import outage as measured_outage
from bench.sizes import BATCH, FULL
from bench.table import Line, Result

NOT_MEASURED = "not measured"
WAVE = f"{FULL.due:,} timeouts within {FULL.due_s:g} s"
CALM_RATE, WAVE_RATE = FULL.few_due / FULL.few_due_s, FULL.due / FULL.due_s
CALM_ROW = f"from a deadline to the arrival of its completion, at {CALM_RATE:,.0f} timeouts a second"
"""How the lateness of timeouts is called that the README promises."""

WAVE_ROW = f"the same in a wave, at {WAVE_RATE:,.0f} a second for {FULL.due_s:g} seconds"
APART = {"tasks that publish tasks": queues.GROUP, "chords of Celery": "celery", "flows of BullMQ": "bullmq"}
"""How the rows are called that may be of another run than the others, and the group of each."""

WEBHOOK_ROW = "from the last ack to the webhook, at 1,000 roots a second"


class MissingFigureError(LookupError):
    """A run lacks a figure that a page shows."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a run, by their group and their name; ``apart`` says of what other run a group is."""

    found: dict[tuple[str, str], Line]
    apart: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Result], apart: Mapping[str, str] | None = None) -> "Lines":
        """Read the lines among all that was measured; of two that are called alike the first counts."""
        found: dict[tuple[str, str], Line] = {}
        for line in results:
            if isinstance(line, Line):
                found.setdefault((line.group, line.what), line)
        return cls(found, apart or {})

    def line(self, group: str, what: str) -> Line:
        """Return a line; raises `MissingFigureError` where the run lacks it."""
        if (group, what) not in self.found:
            raise MissingFigureError(f"the run has no line {what!r} of the group {group}: make bench ONLY={group}")
        return self.found[group, what]

    def median(self, group: str, what: str) -> float:
        """Return the median of a line."""
        return self.line(group, what).measured.median

    def a_second(self, group: str, what: str) -> str:
        """Return how often a second one core does what takes the CPU µs of a line."""
        return two_digits(1e6 / self.median(group, what))


def two_digits(value: float) -> str:
    """Write a figure with two digits that count: 1,900 for 1,877, and 46 for 45.8."""
    if value < 10:
        return f"{value:.2g}"
    return f"{round(value, 2 - len(str(int(value)))):,.0f}"


def readme(lines: Lines) -> str:
    """Write the table of the README."""
    packed = f"root updates over HTTP, packed, {BATCH:,} a batch"
    rows = [
        (f"memory of a pending root, with {FULL.pending:,} pending", f"{_pending_root(lines)} bytes"),
        (
            f"operations of one process on one Redis, in packed batches of {BATCH:,}",
            f"{two_digits(lines.median(http_batches.GROUP, packed))} a second",
        ),
        *((what, f"{median} ms median, {p99} ms at the 99th percentile") for what, median, p99 in _lateness(lines)),
    ]
    return _table(("measured ([how, and on what](docs/performance.md))", ""), rows)


def performance(lines: Lines) -> str:
    """Write what the page on performance shows."""
    kept = (
        f"A pending root takes {_pending_root(lines)} bytes of Redis, and "
        f"{_bytes(lines, 'a pending root with a message id of 12 bytes')} with a message id of 12 bytes. "
        f"One that has ended takes {_bytes(lines, 'a finished root')} until its outcome is forgotten."
    )
    parts = (
        "## What one core carries",
        _table(("a second", "one core of the acker", "one core of its Redis"), _one_core(lines)),
        _table(("a second", "one core of your program", "with the hot path compiled"), _client(lines)),
        "## How late",
        _table(("milliseconds", "median", "99th percentile"), _lateness(lines)),
        "## How much memory",
        kept,
        "## Beside other systems",
        beside(lines),
    )  # fmt: skip
    return "\n\n".join(parts)


def comparison(lines: Lines) -> str:
    """Write the tables of the page that compares systems: what tracking takes, and how trees end."""
    return f"{beside(lines)}\n\n{_ends(lines)}"


def outage(lines: Lines) -> str:
    """Write what the page on semantics says of the timeouts after an outage."""
    line = lines.line(measured_outage.GROUP, measured_outage.MOST.format(due=FULL.stalled, grace_s=FULL.grace_s))
    return (
        f"{FULL.stalled:,} roots fell due while an acker was frozen. Without grace {two_digits(line.base.median)} of "
        f"them timed out in the worst second after that, and with {FULL.grace_s:g} seconds of grace "
        f"{two_digits(line.measured.median)}."
    )


def beside(lines: Lines) -> str:
    """Write what tracking takes in other systems, and what it takes there with Acker."""
    rows = (
        ("Dramatiq, tasks that are known beforehand", "groups", _own("Dramatiq", "groups"), _dramatiq_with_acker),
        (
            "Dramatiq, tasks that publish tasks", "groups, and a `Barrier`",
            _grown("Dramatiq", "groups"), _grown("Dramatiq", "Acker"),
        ),
        ("Celery, tasks that are known beforehand", "chords", _own("Celery", "chords"), _nothing),
        ("Celery, tasks that publish tasks", "chords", _grown("Celery", "chords"), _grown("Celery", "Acker")),
        ("BullMQ, jobs that are known beforehand", "flows", _own("BullMQ", "flows"), _nothing),
        ("Storm, a spout, a split and ten counts: a tree", "its acker", _storm, _tree),
    )  # fmt: skip
    cells = [
        (what, way, _or_not_measured(theirs, lines), _or_not_measured(ours, lines)) for what, way, theirs, ours in rows
    ]
    table = _table(
        ("CPU µs to track a task; of Storm, to process a tree", "how it tracks", "it takes", "Acker takes"), cells
    )
    others = [f"*{what}* ({lines.apart[group]})" for what, group in APART.items() if group in lines.apart]
    return f"{table}\n\nOf other runs: {', '.join(others)}." if others else table


def _one_core(lines: Lines) -> list[tuple[str, ...]]:
    many = f"{single.CONNECTIONS} connections"
    rows: list[tuple[str, ...]] = [
        (
            f"acks, each a request of its own, over {many}",
            lines.a_second(single.GROUP, f"the service, {single.BARE_ACK}, {many}"),
            lines.a_second(single.GROUP, f"Redis, {single.BARE_ACK}, {many}"),
        )
    ]
    rows += [
        (
            f"operations in batches of {BATCH:,}, {form}",
            lines.a_second(http_batches.GROUP, f"the service, an update, {form}"),
            lines.a_second(http_batches.GROUP, f"Redis behind it, an update, {form}"),
        )
        for form in ("packed", "JSON")
    ]
    for way, name in (("webhook", "webhooks"), ("pubsub", "pub/sub"), ("pull", "reading the mailbox")):
        rate = lines.median(delivery.GROUP, f"completions in a second of the service's processor, by {way}")
        rows.append((f"completions by {name}", two_digits(rate), ""))
    return rows


def _client(lines: Lines) -> list[tuple[str, ...]]:
    kinds = {
        "of one root, which fold": "1,000 of a root",
        "each of another root": "each of another root",
        "each with one child": "each with one child",
    }

    def rate(what: str) -> Cell:
        return lambda lines: lines.a_second(client.GROUP, what)

    return [
        (
            f"acks of the Python client, {name}",
            lines.a_second(client.GROUP, f"{client.CLIENT}, an ack, {kind}"),
            _or_not_measured(rate(f"{client.CLIENT}, {client.COMPILED}, an ack, {kind}"), lines),
        )
        for name, kind in kinds.items()
    ]


def _lateness(lines: Lines) -> list[tuple[str, str, str]]:
    """Return what is late, with the median and the 99th percentile in milliseconds."""
    pace = "from the last ack to the webhook, at 1,000 roots/s"
    webhook = [lines.median(delivery.GROUP, f"{name} {pace}") for name in ("p50", "p99")]
    waves = [lines.line(timeouts.GROUP, f"{name} of {WAVE}") for name in (timeouts.P50, timeouts.P99)]
    return [
        (WEBHOOK_ROW, two_digits(webhook[0]), two_digits(webhook[1])),
        (CALM_ROW, two_digits(waves[0].base.median), two_digits(waves[1].base.median)),
        (WAVE_ROW, two_digits(waves[0].measured.median), two_digits(waves[1].measured.median)),
    ]


def _pending_root(lines: Lines) -> str:
    return _bytes(lines, "a pending root")


def _bytes(lines: Lines, what: str) -> str:
    return two_digits(lines.median(memory.GROUP, f"{what}, at {FULL.pending:,}"))


Cell = Callable[[Lines], str]


def _own(system: str, way: str) -> Cell:
    """Return the cell of what a system's own way adds to a task, from the short bench or the long one."""

    def cell(lines: Lines) -> str:
        what, groups = f"a task of {system}, {way}, above the untracked task", (peers_cost.GROUP, system.lower())
        return two_digits(next(lines.median(group, what) for group in groups if (group, what) in lines.found))

    return cell


def _grown(system: str, way: str) -> Cell:
    what = f"{system}, {way}: a task above the untracked one, all processes"
    return lambda lines: two_digits(lines.median(queues.GROUP, what))


def _dramatiq_with_acker(lines: Lines) -> str:
    ways = (f"a task of Dramatiq, {peers_cost.WAYS[way]}, above the untracked task" for way in ("safe", "folded"))
    safe, folded = (two_digits(lines.median(peers_cost.GROUP, way)) for way in ways)
    return f"{safe}; {folded} where acks fold"


def _nothing(_: Lines) -> str:
    return ""


def _tree(lines: Lines) -> str:
    return two_digits(lines.median(word_tree.GROUP, word_tree.ROOT))


def _storm(lines: Lines) -> str:
    line = lines.line(word_tree.GROUP, word_tree.ROOT)
    return f"{two_digits(line.base.median)}{' on another machine' if word_tree.ELSEWHERE in line.beside else ''}"


def _or_not_measured(cell: Cell, lines: Lines) -> str:
    try:
        return cell(lines)
    except (MissingFigureError, StopIteration):
        return NOT_MEASURED


def _ends(lines: Lines) -> str:
    """Write how trees of tasks that publish tasks ended, of each way."""
    ways = [f"{name}, {way}" for name, own in (("Celery", "chords"), ("Dramatiq", "groups")) for way in (own, "Acker")]
    head = (f"of {FULL.grown_roots:,} trees, in each round", *ways)
    rows = []
    for words in (*queues.KINDS.values(), queues.EVENTS["again"]):
        cells = (_rounds(lines, f"{way}: trees {words}") for way in ways)
        rows.append((words, *cells))
    return _table(head, rows)


def _rounds(lines: Lines, what: str) -> str:
    line = lines.found.get((queues.GROUP, what))
    if line is None:
        return NOT_MEASURED
    values = [f"{value:,.0f}" for value in line.measured.values]
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
