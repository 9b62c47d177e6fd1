"""Reads what Spark plans for a frame: its analyzed plan, as Spark writes it in JSON.

Each list of nodes is in pre-order, and each node says how many children it has. The plan's text would not do: Spark
leaves columns out of it where a row has many.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from acker_spark._batch.columns import EDGE, JOINED, MESSAGE, ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Node = dict[str, Any]
"""A step of a plan, or a part of an expression."""

_DEDUPLICATE = ("Deduplicate", "DeduplicateWithinWatermark")
_UNSTABLE = {
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "Rand": "rand()",
    "RandStr": "randstr()",
    "Randn": "randn()",
    "Shuffle": "shuffle()",
    "SparkPartitionID": "spark_partition_id()",
    "Uniform": "uniform()",
    "Uuid": "uuid()",
}
"""Functions whose values change when a batch runs again."""
_CLOCK = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}
"""In the plan of a stream Spark keeps the time of a batch; in the function of a batch it is the time of the call."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a frame."""

    steps: list[Node]
    """From the last step to the sources."""
    is_stream: bool

    @classmethod
    def of(cls, frame: "DataFrame") -> "Plan":
        """Read the plan of a frame. Not under Spark Connect, which has it on the server."""
        java: Any = frame
        analyzed = java._jdf.queryExecution().analyzed()  # noqa: SLF001 - Python has no way to it
        return cls.read(analyzed, is_stream=frame.isStreaming)

    @classmethod
    def read(cls, analyzed: Any, *, is_stream: bool) -> "Plan":
        """Read a plan of the driver's Java side."""
        return cls(json.loads(analyzed.toJSON()), is_stream)

    def has_anchors(self) -> bool:
        """Return whether these rows come from root() or received(), also where later steps left their anchors out."""
        return any(_makes(step, MESSAGE) for step in self.steps)

    def find_dropped(self) -> list[str] | None:
        """Return the keys by which duplicates are dropped of rows with anchors; None where none are.

        Rows with one anchor are one delivery that came twice: its edge is acked with the row that is kept.
        """
        for at, step in enumerate(self.steps):
            if _kind(step) in _DEDUPLICATE:
                keys = [key["name"] for (key,) in step["keys"]]
                if not {ROOT, EDGE} <= set(keys) and self._branch(at + 1).has_anchors():
                    return keys
        return None

    def has_plain_join(self) -> bool:
        """Return whether Spark's own ``join`` was given rows with anchors on both sides."""
        for at, step in enumerate(self.steps):
            if _kind(step) == "Join":
                left = self._branch(at + 1)
                right = self._branch(at + 1 + len(left.steps))
                if left.has_anchors() and right.has_anchors() and not _is_for_own_join(left):
                    return True
        return False

    def _branch(self, at: int) -> "Plan":
        """Return the steps from this one down to its sources."""
        left, end = 1, at
        while left:
            left += self.steps[end]["num-children"] - 1
            end += 1
        return Plan(self.steps[at:end], self.is_stream)

    def find_unstable(self, *origins: "Plan") -> str | None:
        """Return a function that makes the columns of the last step, whose values change when a batch runs again.

        ``origins`` are the plans of what this plan reads. None where no such function is found.
        """
        made = {column: origin for plan in (*origins, self) for column, origin in _made(plan)}
        left, seen = [(tree, self.is_stream) for tree in _expressions(self.steps[0])], set[int]()
        while left:
            tree, is_stream = left.pop()
            for node in tree:
                if name := _unstable(node, is_stream=is_stream):
                    return name
                if _kind(node) == "AttributeReference" and (found := _id(node)) not in seen:
                    seen.add(found)
                    left += [made[found]] if found in made else []
        return None


def _made(plan: Plan) -> Iterator[tuple[int, tuple[list[Node], bool]]]:
    """Yield the expression that makes each column, with the column's id, and whether it is of a stream."""
    for step in plan.steps:
        for tree in _expressions(step):
            if _kind(tree[0]) == "Alias":
                yield _id(tree[0]), (tree, plan.is_stream)
        if _kind(step) == "Generate":
            for (column,) in step["generatorOutput"]:
                yield _id(column), (step["generator"], plan.is_stream)


def _is_for_own_join(left: Plan) -> bool:
    """Return whether this is the left side of ``af.join``."""
    since = takewhile(lambda step: _kind(step) != "Join", left.steps)
    return any(_makes(step, JOINED) for step in since)


def _makes(step: Node, column: str) -> bool:
    return any(_kind(tree[0]) == "Alias" and tree[0]["name"] == column for tree in _expressions(step))


def _unstable(node: Node, *, is_stream: bool) -> str | None:
    kind = _kind(node)
    if kind == "PythonUDF" and not node["udfDeterministic"]:
        return f"{node['name']}()"
    return _UNSTABLE.get(kind) or (None if is_stream else _CLOCK.get(kind))


def _id(node: Node) -> int:
    return int(node["exprId"]["id"])


def _kind(node: Node) -> str:
    return str(node["class"]).rpartition(".")[2]


def _expressions(step: Node) -> Iterator[list[Node]]:
    """Yield the expressions of a step; a field holds one, or lists of them."""
    left = [value for value in step.values() if isinstance(value, list)]
    while left:
        value = left.pop()
        if value and isinstance(value[0], dict):
            if "class" in value[0]:
                yield value
        else:
            left.extend(one for one in value if isinstance(one, list))
