"""What the bench has to show: each goal, and the line that holds its figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.baseline import NAME
from bench.client import FLUSHED, FLUSHED_RATIOS
from bench.delivery import COMPLETION_RATIOS
from bench.http_batches import BY_SIZE
from bench.languages import KINDS, SHARES
from bench.operating import BARE, DETAILED, TRACED, UNTRACED, WATCHED
from bench.processes import LOADS
from bench.redis_time import FURTHEST
from bench.single import BARE_ACK, KEYED_ACK, LAST_ACK
from bench.sizes import Sizes
from bench.table import Line, Result, Skipped, number, rows
from bench.word_tree import ROOT, TREE_RATIOS

COLUMNS = ("what", "measured", "beside", "ratio", "to reach")
MISSING = "not in this run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """How the short table calls a figure, and the group and the name of its line."""

    name: str
    group: str
    line: str

    def cells(self, found: dict[tuple[str, str], Line | Skipped]) -> tuple[str, ...]:
        """Write it as one string a column, also where its line is missing."""
        line = found.get((self.group, self.line))
        if isinstance(line, Line):
            _, _, measured, beside, base, _, verdict = line.cells()
            return self.name, measured, f"{beside}: {base}", number(line.ratio.median), verdict
        return self.name, "not measured", line.why if line else MISSING, "", ""


def goals(sizes: Sizes) -> tuple[Goal, ...]:
    """Return all goals, in the order of the table; the names of some lines hold a size of the run."""
    few, many = sizes.levels[0], sizes.levels[-1]
    wave = f"{sizes.due:,} timeouts within {sizes.due_s:g} s"
    return tuple(Goal(name=name, group=group, line=line) for name, group, line in (
        *((f"{what}, {load}", "single", f"the service, {what}, {load}")
          for what in (BARE_ACK, KEYED_ACK) for load in ("32 connections", "1 connection")),
        ("a single ack, 99th percentile, 32 connections", "single", f"p99 of {KEYED_ACK}, 32 connections"),
        *((f"Redis, {what}", "single", f"Redis, {what}, 32 connections, beside {NAME}")
          for what in (BARE_ACK, KEYED_ACK)),
        ("Redis, a last ack by itself", "single", f"Redis, {LAST_ACK}, 32 connections, beside {NAME}"),
        *((f"an operation, {form}, inits and acks by 1,000", "batches",
           f"the service, an operation, {form}, beyond the idle service, inits and acks in each batch")
          for form in ("packed", "JSON")),
        *((f"an ack, {form}, by {size:,}", "batches", f"the service, an ack, {form}, {size:,} a batch, beside {NAME}")
          for form, sizes_ in BY_SIZE.items() for size in sizes_),
        *((f"Redis, {operation}, {pending:,} pending", "redis", f"{line}, {pending:,} pending, beside {NAME}")
          for operation, line in (("an init", "an init"), ("an ack", "an ack"),
                                  ("a last ack", "a last ack, and what forgets it"))
          for pending in (few, many)),
        *((f"Redis, {operation}, what 5 million pending add", "redis",
           f"{line}, added from 10,000 to {FURTHEST:,} pending")
          for operation, line in (("an init", "an init"), ("an ack", "an ack"),
                                  ("a last ack", "a last ack, and what forgets it"))),
        ("memory, a pending root", "memory", f"a pending root, at {sizes.pending:,}"),
        ("memory, a finished root", "memory", f"a finished root, at {sizes.pending:,}"),
        ("the page and metrics, of an operation", "operating", WATCHED),
        ("one root of a hundred traced, of an operation", "operating", TRACED),
        ("memory, a pending root with details", "operating", f"{DETAILED}, at {sizes.pending:,}"),
        ("memory, a pending root without details", "operating", f"{BARE}, at {sizes.pending:,}"),
        ("memory, an untraced root among traced ones", "operating", f"{UNTRACED}, at {sizes.pending:,}"),
        ("the Python client, an ack, folded", "client", "the client, an ack, 1,000 of a root"),
        ("the Python client, an ack, not folded", "client", "the client, an ack, each of another root"),
        ("the Python client, an ack with one child", "client", "the client, an ack, each with one child"),
        *((f"an ack flushed by itself, {part}", "client", f"{part}, an ack {FLUSHED}, beside {NAME}")
          for part in FLUSHED_RATIOS),
        *((f"the {language} client, {kind}, of Python's", "languages", f"the {language} client, {kind}")
          for language in SHARES for kind in KINDS),
        *((f"completions by {way}, of one core", "delivery",
           f"completions in a second of the service's processor, by {way}") for way in ("pull", "pubsub", "webhook")),
        *((f"a completion by {way}", "delivery", f"the service, a completion by {way}, beside {NAME}")
          for way in COMPLETION_RATIOS),
        ("a wave of timeouts, 99th percentile", "timeouts", f"p99 of the lateness of {wave}"),
        *((f"two processes, {name}, {connections} connections", "processes", f"{line}, {connections} connections")
          for connections in LOADS
          for name, line in (("an ack", "all api processes, a single ack"),
                             ("how even they are", "the busier api process, a single ack"))),
        ("a task of Dramatiq, each ack flushed", "peers", "a task of Dramatiq, Acker, safe, above the untracked task"),
        ("a task of Dramatiq, acks folded", "peers", "a task of Dramatiq, Acker, folded, above the untracked task"),
        ("a root of spout, split and ten counts", "tree", ROOT),
        *((f"a root of spout, split and ten counts, {client}", "tree", f"{ROOT}, {client}, beside {NAME}")
          for client in TREE_RATIOS),
        *((f"Spark, the realistic job, {level} level{away}", "spark",
           f"the realistic job, {level} level, as a multiple{without}")
          for level in ("batch", "row")
          for away, without in (("", ""), (", acker elsewhere", ", less what the acker and its Redis take"))),
    ))  # fmt: skip


def table(results: Sequence[Result], sizes: Sizes) -> list[tuple[str, ...]]:
    """Write one row of strings for each goal."""
    found = {(row.group, row.what): row for row in rows(results)}
    return [goal.cells(found) for goal in goals(sizes)]


def for_terminal(results: Sequence[Result], sizes: Sizes, groups: Sequence[str]) -> Table:
    """Lay out the goals of the groups that were measured."""
    measured = {goal.name for goal in goals(sizes) if goal.group in groups}
    laid_out = Table(*COLUMNS, title="What is to be reached")
    for row in table(results, sizes):
        if row[0] in measured:
            laid_out.add_row(*row)
    return laid_out
