"""Fills a Redis with pending roots of which no one was emitted: whole buckets at once, each as inits would leave it.

A hundred million inits take most of an hour. What an operation takes depends on how many buckets there are and how full
they are, and not on how they came to be, so these are written by a script that takes a minute. The roots that are
measured afterwards are real, and lie in buckets among them.
"""

from collections.abc import Iterator

import numpy as np

from bench.direct import ROOTS_A_BUCKET, Direct
from bench.trees import Trees

CHUNK = 1_000
"""So many buckets are written by one call of the script."""
SAMPLE = 1_000
"""So many real roots are emitted for a record that can be copied."""
RECORD_BYTES = 22

_FILL = """
local base, first, shard, record, ttl, score = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
for at = 1, #ARGV[7] do
  local bucket, fields = struct.pack('>I4', first + at - 1), {}
  for root = 1, ARGV[7]:byte(at) do
    fields[2 * root - 1] = struct.pack('>I4I2I2', math.random(0, 2147483647), root, shard)
    fields[2 * root] = record
  end
  if #fields > 0 then
    redis.call('HSET', base .. 'r' .. bucket, unpack(fields))
    redis.call('PEXPIRE', base .. 'r' .. bucket, ttl)
    redis.call('ZADD', base .. 'due', score, bucket)
  end
end
"""
"""Ids are as long as real ones and as hard to compress, and differ within a bucket."""
BACKSTOP_MS = 21 * 86_400_000


def fill(at: Direct, pending: int) -> None:
    """Write so many pending roots into the buckets of a topology that is made for as many."""
    at.run(at.prepare(Trees(SAMPLE).inits()), "p")
    record = _record(at)
    now_ms = int(at.redis.time()[0]) * 1_000
    script = at.redis.register_script(_FILL)
    for number, shard in enumerate(at.topology.shards):
        base = f"{shard}:{at.topology.incarnation}:"
        for first, counts in _chunks(at.topology.layout.buckets, pending, at.topology.layout.shards):
            score = now_ms + at.topology.config.message_timeout_ms
            script(args=[base, first, number, record, BACKSTOP_MS, score, counts])


def _record(at: Direct) -> bytes:
    """Give the record of a pending root that was emitted without a message id."""
    for key in at.redis.scan_iter(_type="hash", count=1_000):
        for value in at.redis.hvals(key):
            if isinstance(value, bytes) and len(value) == RECORD_BYTES:
                return value
    raise RuntimeError("no root has a record of the size that simulated ones have")


def _chunks(buckets: int, pending: int, shards: int) -> Iterator[tuple[int, bytes]]:
    """Draw how many roots the buckets of a shard have: ids are random, so it is a Poisson distribution."""
    mean = pending / shards / buckets
    assert mean <= 2 * ROOTS_A_BUCKET, f"{mean:.0f} roots a bucket"
    random = np.random.default_rng()
    for first in range(0, buckets, CHUNK):
        counts = random.poisson(mean, min(CHUNK, buckets - first))
        yield first, np.minimum(counts, 255).astype(np.uint8).tobytes()
