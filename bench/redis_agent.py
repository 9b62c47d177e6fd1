"""Measures what operations take of Redis's processor, with the code that this process imports.

`python -P bench/redis_agent.py TASK` reads one command a line and answers it with a line of JSON. `bench.redis_time`
starts it once with the present code and once with that of an earlier commit, so it uses only what both have.
"""

import importlib
import inspect
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acker_service.topologies.config import TopologyConfig

from bench import direct
from bench.servers import Member
from bench.trees import Trees

ACKERS = 4
FILL = 100_000
TICK_S = 0.25
"""The interval of the service's tick."""
RECORDS = 1_000
"""So many records a call of the service's tick reads, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is measured.

    Outcomes are forgotten until they are ``swept`` or more; each time, the tick is watched for ``sweep_s`` seconds at
    least. With ``simulated`` the roots that stay pending are written by `bench.simulated`, which only the present code
    has.
    """

    port: int
    pending: int
    message_timeout_ms: int
    retention_ms: int
    sweep_s: float
    swept: int
    simulated: bool = False


class Agent:
    """One topology with many pending roots, on one server."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._server = Member(program="", port=task.port, folder=Path(), options=())
        buckets = direct.buckets_for(task.pending, ackers=ACKERS)
        configuration = TopologyConfig(
            ackers=ACKERS,
            buckets=buckets,
            message_timeout_ms=task.message_timeout_ms,
            retention_ms=task.retention_ms,
        )
        self._at = direct.make(self._server, configuration)
        self._expiry = _expiry()

    def fill(self) -> dict[str, float]:
        """Emit all roots that stay pending, and return bytes and CPU µs for each."""
        before, pending = self._at.used_memory(), self._task.pending
        if self._task.simulated:
            importlib.import_module("bench.simulated").fill(self._at, pending)
        else:
            for start in range(0, pending, FILL):
                self._at.run(self._at.prepare(Trees(min(FILL, pending - start)).inits()), "p")
        grown = self._at.used_memory() - before
        return {"bytes": grown / pending}

    def forget(self) -> dict[str, float]:
        """End a tenth more roots than are pending, and give the CPU µs that it takes to forget the outcome of each.

        So many expired outcomes make the tick remove them. Few of them take less than the noise of the clock, so they
        are ended and forgotten several times.
        """
        idle_s, ended = self._ticking(), self._task.pending * 11 // 10
        times, taken_s = -(-self._task.swept // ended), 0.0
        for _ in range(times):
            self._end(ended)
            time.sleep(2 * self._task.retention_ms / 1_000)
            taken_s += self._ticking() - idle_s
        return {"sweep": max(0.0, taken_s) / (times * ended) * 1e6}

    def _end(self, count: int) -> None:
        """Emit so many roots and end them."""
        for start in range(0, count, FILL):
            trees = Trees(min(FILL, count - start))
            for columns, word in ((trees.inits(), "p"), (trees.acks(), "p"), (trees.last_acks(), "a")):
                self._at.run(self._at.prepare(columns), word)
            self._at.forget("stream")

    def round(self, count: int) -> dict[str, float]:
        """Emit roots with message ids, ack an edge of each and then the last one, by edge ids; CPU µs an operation."""
        trees, names = Trees(count), [f"order {number:06}" for number in range(count)]
        taken = {}
        for name, word, columns in (
            ("an init", "p", trees.inits(message_ids=names)),
            ("an ack", "p", trees.acks()),
            ("a last ack", "a", trees.last_acks()),
        ):
            if name != "an init":
                columns.records["edge_id"] = columns.records["ack_val"]
            taken[name] = self._at.run(self._at.prepare(columns), word).redis_s / count * 1e6
        self._at.forget("stream")
        return taken

    def _ticking(self) -> float:
        """Tick in all shards as the service does, for a while, and return the seconds that Redis took."""
        before, began = self._server.cpu_s(), time.monotonic()
        while time.monotonic() - began < self._task.sweep_s:
            for shard in self._at.topology.shards:
                while self._at.redis.execute_command(*self._tick(shard))[2]:
                    pass
            time.sleep(TICK_S)
        return self._server.cpu_s() - before

    def _tick(self, shard: str) -> direct.Call:
        topology = self._at.topology
        # the commit knows no grace after an outage
        grace = {"grace_ms": 0} if "grace_ms" in inspect.signature(self._expiry.tick).parameters else {}
        call = self._expiry.tick(settings=topology.settings, max_records=RECORDS, **grace)
        return tuple(call.at(shard, topology.stamp).command)


def _expiry() -> Any:
    """Return the module that writes a tick's call."""
    try:
        return importlib.import_module("acker_service.redis.functions.expiry")
    except ModuleNotFoundError:
        return importlib.import_module("acker_service.redis.expiry_functions")  # its name at the earlier commit


def main() -> None:
    """Answer commands until there are no more."""
    agent = Agent(Task(**json.loads(sys.argv[1])))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(agent, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
