"""Messages whose trees have one edge more, which is kept open elsewhere.

Without it a delta that is applied twice would not be seen, since the first already ends the tree.
"""

from collections import Counter
from typing import Any

from acker_spark._batch.columns import ROOT, unsigned

from tests.spark.tracked import Tracked

MESSAGES = 24
HELD, ELSEWHERE = "00000000e15e3e3e", "00000000e15e3e3f"
"""What is open elsewhere in every tree, and the name under which it is acked at last."""


def sentences() -> list[dict[str, Any]]:
    """Sentences whose words are spread over the partitions."""
    return [{"id": one, "sentence": " ".join(f"w{one * k % 17}" for k in range(1, 6))} for one in range(MESSAGES)]


class Elsewhere:
    """Keeps an edge of every tree open, and acks it at last."""

    def __init__(self, lines: Any, tracked: Tracked) -> None:
        self._tracked = tracked
        acker = tracked.acker()
        assert acker.topology.dedupe_window_ms
        self._roots = [row[ROOT] for row in acker.root(lines, "id").select(ROOT).collect()]
        self._all(HELD)

    def let_go(self) -> dict[str, int]:
        """See that no tree has ended yet, ack the last edge of each, and give how many it ended."""
        assert self._tracked.outcomes() == {}
        return self._all(ELSEWHERE)

    def _all(self, name: str) -> dict[str, int]:
        acks = [
            {"op": "ack", "root_id": f"{unsigned(root):016x}", "ack_val": HELD, "edge_id": name} for root in self._roots
        ]
        return dict(Counter(self._tracked.post("/batch", {"ops": acks})["results"]))
