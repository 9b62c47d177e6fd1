"""A driver of its own: counts words over a folder of sentences, and kills itself where it is told to.

Arguments: the acker's address, topology, folder, number of shuffle partitions, and the fate: ``requests:N`` (before the
N-th request it would write), ``commit`` (when all is shipped, before Spark commits the batch), ``none``.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
from acker_client.lowlevel import requests
from acker_spark import SparkAcker
from pyspark.sql import functions as F

from tests.spark.session import make_session

SCHEMA = "id long, sentence string"
OPS_A_REQUEST = 10


def die(*_: Any) -> None:
    """kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(httpx.BaseTransport):
    """Dies before a certain request that writes."""

    def __init__(self, at: int) -> None:
        self.left = at
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Count, and die or pass it on."""
        self.left -= request.method == "POST"
        if self.left == 0:
            die()
        return self._inner.handle_request(request)


def count(batch: Any, batch_id: int, collector: Any) -> None:
    """Count words."""
    batch.groupBy("word").count().collect()


def main() -> None:
    """Run over all there is."""
    url, topology, folder, partitions, fate = sys.argv[1:]
    requests.MAX_OPS = OPS_A_REQUEST
    kind, _, at = fate.partition(":")
    transport = Dying(int(at)) if kind == "requests" else None
    home = Path(folder)
    session = make_session(home, partitions=int(partitions))
    acker = SparkAcker(
        url=url, topology=topology, spout_task="reader", transport=transport, on_batch=die if kind == "commit" else None
    )
    lines = session.readStream.schema(SCHEMA).json(str(home / "source"))
    words = acker.root(lines, "id").withColumn("word", F.explode(F.split("sentence", " ")))
    spread = words.repartition(int(partitions), "word")
    writer = spread.writeStream.foreachBatch(acker.foreach_batch(count)).option(
        "checkpointLocation", str(home / "checkpoint")
    )
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
