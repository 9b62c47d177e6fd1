"""A topology as a test of the connector sees it, and a source for its stream."""

import json
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acker_spark import SparkAcker
from acker_spark._batch.columns import unsigned

from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true

Row = dict[str, Any]
FIRST_FILE_S = 1_790_000_000


@dataclass(slots=True, kw_only=True)
class Tracked:
    """A topology of a test's own."""

    process: AckerProcess
    topology: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")
    spout_task: str = "reader"
    ackers: list[SparkAcker] = field(default_factory=list)

    def acker(self, **options: Any) -> SparkAcker:
        """An acker for this topology."""
        wanted = {"url": self.process.url, "topology": self.topology, "spout_task": self.spout_task, **options}
        self.ackers.append(SparkAcker(**wanted))
        return self.ackers[-1]

    def close(self) -> None:
        """Close the connections of its ackers."""
        for acker in self.ackers:
            acker.close()

    def get(self, path: str) -> Any:
        """Read something of this topology."""
        return self.process.http.get(f"/v1/topologies/{self.topology}{path}").json()

    def post(self, path: str, document: Row) -> Any:
        """Write something to this topology."""
        answer = self.process.http.post(f"/v1/topologies/{self.topology}{path}", json=document)
        return answer.raise_for_status().json()

    def outcomes(self, spout_task: str | None = None) -> dict[str, str]:
        """The completions of its spout task, by message id; a second one is an error."""
        found = self.get(f"/spouts/{spout_task or self.spout_task}/completions?limit=10000").get("completions", [])
        pairs = [(one["message_id"], one["outcome"]) for one in found]
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    def reasons(self) -> dict[str, str]:
        """Why they ended, by message id."""
        found = self.get(f"/spouts/{self.spout_task}/completions?limit=10000").get("completions", [])
        return {one["message_id"]: one["reason"] for one in found}

    def failures(self) -> dict[str, int]:
        """How many edges of them failed, by message id."""
        found = self.get(f"/spouts/{self.spout_task}/completions?limit=10000").get("completions", [])
        return {one["message_id"]: one["failures"] for one in found}

    def create(self, **settings: Any) -> None:
        """Make the topology with settings of its own, before an acker makes it with the defaults."""
        self.process.http.put(f"/v1/topologies/{self.topology}", json=settings).raise_for_status()

    def pending(self) -> set[str]:
        """The message ids of the roots that are not done."""
        roots = self.get("/roots?limit=1000").get("roots", [])
        return {self.get(f"/roots/{one['root_id']}")["message_id"] for one in roots}

    def hold(self, root: int, edge: str) -> None:
        """Keep a tree open elsewhere: one edge more, as somebody else would have emitted it."""
        self.post("/ack", {"root_id": f"{unsigned(root):016x}", "ack_val": edge, "edge_id": edge})

    def ack(self, root: int, edge: int) -> str:
        """Ack an edge as another system would."""
        named = {"root_id": f"{unsigned(root):016x}", "edge_id": f"{unsigned(edge):016x}"}
        return str(self.post("/ack", named)["state"])


@dataclass(slots=True, kw_only=True)
class Source:
    """A folder of JSON files that a stream reads, one file a batch."""

    spark: Any
    folder: Path
    schema: str
    files: int = 0

    def put(self, *rows: Row) -> None:
        """Write the rows of the next batch: a stream takes files by their times, which could be the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / f".{self.files}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(hidden, (FIRST_FILE_S + self.files,) * 2)
        hidden.rename(self.folder / f"{self.files:05d}.json")
        self.files += 1

    def stream(self) -> Any:
        """Read them as a stream."""
        return self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).json(str(self.folder))


def run(frame: Any, function: Callable[[Any, int], object], checkpoint: Path, **options: Any) -> Any:
    """Run a query over all there is, to its end, and give it; what ended it is raised."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    query = writer.options(**options).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return query


def expect_outcomes(tracked: Tracked, expected: dict[str, str], *, within: float = 60.0) -> None:
    """Wait until the spout task has exactly these completions."""
    eventually_true(lambda: len(tracked.outcomes()) >= len(expected), within=within)
    assert tracked.outcomes() == expected


def messages(*ids: int, **fields: Any) -> Iterable[Row]:
    """Rows of these ids."""
    return [{"id": one, **fields} for one in ids]
