"""Reads what Spark plans for a frame: its analyzed plan, as Spark writes it in JSON.

Each list of nodes is in pre-order, and each node says how many children it has. The plan's text would not do: Spark
leaves columns out of it where a row has many.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_spark._batch.columns import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Node = dict[str, Any]
"""A step of a plan, or a part of an expression."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a frame."""

    steps: list[Node]
    """From the last step to the sources."""

    @classmethod
    def of(cls, frame: "DataFrame") -> "Plan":
        """Read the plan of a frame. Not under Spark Connect, which has it on the server."""
        java: Any = frame
        return cls(json.loads(java._jdf.queryExecution().analyzed().toJSON()))  # noqa: SLF001 - Python has no way to it

    def has_anchors(self) -> bool:
        """Return whether these rows come from root() or received(), also where later steps left their anchors out."""
        return any(_makes(step, MESSAGE) for step in self.steps)


def _makes(step: Node, column: str) -> bool:
    return any(_kind(tree[0]) == "Alias" and tree[0]["name"] == column for tree in _expressions(step))


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
