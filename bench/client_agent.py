"""Measures what acks and trees take of the Python client, with the code that this process imports.

`python -P bench/client_agent.py TASK` reads one command a line and answers it with a line of JSON. `bench.client` and
`bench.word_tree` start it once with the present code and once with that of an earlier commit, so it uses only what both
have.
"""

import inspect
import json
import sys
import time

import httpx
import numpy as np
from acker_client import Acker
from acker_client.sync.spout import Spout

from bench.sizes import BATCH

TOPOLOGY = "bench"
OFFERED = 100_000
"""Acks a second; where the process cannot keep up it goes on as fast as it can."""
STEP = 1_000
"""So many acks are made at a stretch, before it is looked whether it is too early for more."""

COUNTS = 10
"""So many words has a sentence, whose tree has two operations more."""
AT_ONCE = 100
"""So many sentences are emitted in one batch, before their tuples are worked on."""
WITHIN_S = 60.0

Header = dict[str, str]


class Agent:
    """A program that acks what it has emitted."""

    def __init__(self, *, url: str) -> None:
        self._url = url
        self.headers: list[Header] = []
        self._emitted = 0
        self._random = np.random.default_rng()

    def emit(self, count: int, per_root: int) -> dict[str, float]:
        """Emit roots with so many edges each, and make a header for each edge, in any order."""
        drawn = self._random.integers(1, 2**64, count + count // per_root, dtype=np.uint64)
        edges, roots = drawn[:count].reshape(-1, per_root), drawn[count:]
        ack_vals = np.bitwise_xor.reduce(edges, axis=1)
        inits = [
            {"op": "init", "root_id": f"{root:016x}", "ack_val": f"{value:016x}", "spout_task": "bench"}
            for root, value in zip(roots.tolist(), ack_vals.tolist(), strict=True)
        ]
        with httpx.Client(base_url=self._url, trust_env=False, timeout=60) as http:
            for at in range(0, len(inits), BATCH):
                batch = {"ops": inits[at : at + BATCH]}
                http.post(f"/v1/topologies/{TOPOLOGY}/batch", json=batch).raise_for_status()
        anchors = zip(np.repeat(roots, per_root).tolist(), edges.ravel().tolist(), strict=True)
        self.headers = [{"Acker-Anchors": f"00 {TOPOLOGY} {root:016x}-{edge:016x}"} for root, edge in anchors]
        return {}

    def ack(self, children: int) -> dict[str, float]:
        """Ack all, each with so many keyed children, and return the seconds that it took until all were answered."""
        with Acker(self._url, topology=TOPOLOGY) as acker:
            began, cpu = time.perf_counter(), time.process_time()
            self._offer(acker, began, children)
            acker.flush()
            return {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}

    def buffer(self, children: int) -> dict[str, float]:
        """Ack all, each with so many keyed children, and return the seconds that it took without sending."""
        spent = 0.0
        with Acker(self._url, topology=TOPOLOGY, linger=1_000.0, batch_size=2 * STEP) as acker:
            acker.ack(acker.receive(self.headers[0], component="bench"))  # reads the topology, starts the flusher
            for at in range(1, len(self.headers), STEP):
                began = time.process_time()
                self._ack_some(acker, self.headers[at : at + STEP], children)
                spent += time.process_time() - began
                acker.flush()
        return {"cpu_s": spent}

    def flush_each(self) -> dict[str, float]:
        """Ack all, each with one child, and flush each before the next."""
        in_one = "flush" in inspect.signature(Acker.ack).parameters  # the commit has two calls for it
        with Acker(self._url, topology=TOPOLOGY) as acker:
            acker.ack(acker.receive(self.headers[0], component="bench"))  # reads the topology
            acker.flush()
            began = time.process_time()
            for header in self.headers[1:]:
                tup = acker.receive(header, component="bench")
                tup.headers(key="0")
                if in_one:
                    acker.ack(tup, flush=True)
                else:
                    acker.ack(tup)
                    acker.flush()
            return {"cpu_s": time.process_time() - began}

    def tree(self, count: int) -> dict[str, float]:
        """Emit so many sentences, split each, count its words, and read each completion."""
        first, self._emitted = self._emitted, self._emitted + count
        with Acker(self._url, topology=TOPOLOGY) as acker:
            spout = acker.spout("sentences")
            began = time.process_time()
            for at in range(first, first + count, AT_ONCE):
                _process(acker, spout, range(at, min(first + count, at + AT_ONCE)))
            acker.flush()
            _read(spout, {str(number) for number in range(first, first + count)})
            return {"cpu_s": time.process_time() - began}

    def _offer(self, acker: Acker, began: float, children: int) -> None:
        """Take each tuple and ack it, never before its time; with children, make their headers first."""
        for at in range(0, len(self.headers), STEP):
            time.sleep(max(0.0, began + at / OFFERED - time.perf_counter()))
            self._ack_some(acker, self.headers[at : at + STEP], children)

    def _ack_some(self, acker: Acker, headers: list[Header], children: int) -> None:
        for header in headers:
            if children:
                with acker.receive(header, component="bench") as tup:
                    for key in range(children):
                        tup.headers(key=str(key))
            else:
                acker.ack(acker.receive(header, component="bench"))


def _process(acker: Acker, spout: Spout, numbers: range) -> None:
    """Emit roots in a batch, split each, and count its words."""
    sentences = []
    with acker.batch():
        for number in numbers:
            with spout.emit(message_id=str(number)) as root:
                sentences.append(root.headers(key="sentence"))
    words: list[Header] = []
    for headers in sentences:
        with acker.receive(headers, component="split") as tup:
            words.extend(tup.headers(key=str(number)) for number in range(COUNTS))
    for headers in words:
        with acker.receive(headers, component="count"):
            pass


def _read(spout: Spout, left: set[str]) -> None:
    """Read completions until each of these messages was acked, once."""
    end = time.monotonic() + WITHIN_S
    for completion in spout.completions(stop=lambda: not left, page_size=1_000, poll_timeout=1.0):
        assert completion.acked, completion
        assert completion.message_id is not None
        assert time.monotonic() < end, f"{len(left)} were not acked"
        left.remove(completion.message_id)


def main() -> None:
    """Answer commands until there are no more."""
    agent = Agent(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(agent, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
