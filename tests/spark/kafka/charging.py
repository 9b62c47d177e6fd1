"""A driver of its own: reads orders from a topic, writes a receipt for each, and kills itself where it is told to.

Arguments: the acker's address, topology, the broker's address, the topics of orders and of receipts, a folder, what
Spark needs for Kafka, and the fate: ``requests:N`` (before the N-th request it would write), ``written`` (when the
receipts are written and nothing is acked), ``commit`` (when all is shipped, before Spark commits the batch), ``none``.
"""

import sys
from pathlib import Path
from typing import Any

from acker_client.lowlevel import requests
from acker_spark import SparkAcker

from tests.spark.driver import OPS_A_REQUEST, Dying, die
from tests.spark.session import make_session


def main() -> None:
    """Charge all there is."""
    url, topology, kafka, orders, receipts, folder, jars, fate = sys.argv[1:]
    requests.MAX_OPS = OPS_A_REQUEST
    kind, _, at = fate.partition(":")
    home, servers = Path(folder), {"kafka.bootstrap.servers": kafka}
    session = make_session(home, spark_jars=jars)
    acker = SparkAcker(
        url=url,
        topology=topology,
        spout_task="reader",
        transport=Dying(int(at)) if kind == "requests" else None,
        on_batch=die if kind == "commit" else None,
    )

    def charge(batch: Any, batch_id: int, collector: Any) -> None:
        sent = collector.emit(batch, "receipts", key=["partition", "offset"])
        rows = sent.select("key", "value", acker.kafka_headers(sent, others="headers").alias("headers"))
        rows.write.format("kafka").options(topic=receipts, **servers).save()
        if kind == "written":
            die()

    source = {"subscribe": orders, "startingOffsets": "earliest", "includeHeaders": "true"}
    isolation = {"kafka.isolation.level": "read_committed"}
    lines = session.readStream.format("kafka").options(**servers, **source, **isolation).load()
    writer = acker.received(lines, headers="headers").writeStream.foreachBatch(acker.foreach_batch(charge))
    writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
