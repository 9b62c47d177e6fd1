"""Fills a Redis with pending roots without emitting them: it writes whole buckets, each as inits would leave it.

A hundred million inits take most of an hour. What an operation takes depends on how many buckets there are and how full
they are, and not on how they came to be, so these are written by a script that takes a minute. The roots that are
measured afterwards are real, and lie in buckets among them.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
from acker_service.topologies.config import ROOTS_PER_BUCKET

from bench.direct import Direct
from bench.trees import Trees, draw_ids

CHUNK = 5_000
"""So many buckets are written by one call of the script."""
SAMPLE = 1_000
"""So many real roots are emitted for a record that can be copied."""
FULLEST = 2 * ROOTS_PER_BUCKET
"""No bucket gets more roots than this; next to none would."""

_FILL = """
local base, first, ttl, score, counts = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
for at = 1, #counts do
  local bucket, roots = struct.pack('>I4', first + at - 1), counts:byte(at)
  if roots > 0 then
    redis.call('RESTORE', base .. 'r' .. bucket, ttl, ARGV[5 + roots], 'REPLACE')
    redis.call('ZADD', base .. 'due', score, bucket)
  end
end
"""
"""The arguments after the fifth are buckets of one root, two roots and so on, as DUMP gives them."""
BACKSTOP_MS = 21 * 86_400_000


def fill(at: Direct, pending: int) -> None:
    """Write so many pending roots into the buckets of a topology that is made for as many."""
    at.run(at.prepare(Trees(SAMPLE).inits()), "p")
    dumps = _dumps(at, _record(at))
    score = int(at.redis.time()[0]) * 1_000 + at.topology.config.message_timeout_ms
    script = at.redis.register_script(_FILL)
    for shard in at.topology.shards:
        base = f"{shard}:{at.topology.incarnation}:"
        for first, counts in _chunks(at.topology.layout.buckets, pending, at.topology.layout.shards):
            script(args=[base, first, BACKSTOP_MS, score, counts, *dumps])


def _dumps(at: Direct, record: bytes) -> list[bytes]:
    """Make buckets of one root to `FULLEST`; ids are as long as real ones, and differ within a bucket."""
    ids, name = draw_ids(FULLEST).astype(">u8"), "simulated"
    dumps = []
    for number in ids:
        at.redis.hset(name, number.tobytes(), record)
        dumps.append(cast("bytes", at.redis.dump(name)))
    at.redis.delete(name)
    return dumps


def _record(at: Direct) -> bytes:
    """Return the record of a pending root that was emitted without a message id."""
    buckets = f"{at.topology.shards[0]}:{at.topology.incarnation}:r????"  # four raw bytes
    for key in at.redis.scan_iter(match=buckets, count=1_000):
        for value in at.redis.hvals(key):
            return cast("bytes", value)
    raise RuntimeError(f"no root was emitted: there is no key {buckets}")


def _chunks(buckets: int, pending: int, shards: int) -> Iterator[tuple[int, bytes]]:
    """Draw how many roots the buckets of a shard have: ids are random, so it is a Poisson distribution."""
    mean = pending / shards / buckets
    assert mean <= 1.1 * ROOTS_PER_BUCKET, f"{mean:.0f} roots a bucket"
    random = np.random.default_rng()
    for first in range(0, buckets, CHUNK):
        counts = random.poisson(mean, min(CHUNK, buckets - first))
        yield first, np.minimum(counts, FULLEST).astype(np.uint8).tobytes()
