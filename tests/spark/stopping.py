"""A driver of its own, all of whose Spark is stopped while the function of a batch works; the function goes on.

Arguments: the acker's address, topology and folder. The file ``swallowed`` has what the function did not let pass.
"""

import sys
import threading
from pathlib import Path
from typing import Any

from acker_spark import SparkAcker

from tests.spark.session import make_session
from tests.support.waiting import eventually_true

PATIENCE_S = 120


def main() -> None:
    """Stop Spark in the first batch."""
    url, topology, folder = sys.argv[1:]
    home, works, ended = Path(folder), threading.Event(), threading.Event()
    session = make_session(home)
    java = session.sparkContext._jsc.sc()
    acker = SparkAcker(url=url, topology=topology, spout_task="reader")

    def careless(batch: Any, batch_id: int, collector: Any) -> None:
        works.set()
        eventually_true(java.isStopped, within=PATIENCE_S)
        try:
            batch.write.json(str(home / "out"))
        except Exception as error:  # noqa: BLE001 - the mistake that the test is about
            (home / "swallowed").write_text(str(error))

    def run(batch: Any, batch_id: int) -> None:
        try:
            acker.foreach_batch(careless)(batch, batch_id)
        finally:
            ended.set()

    lines = session.readStream.schema("id long").json(str(home / "source"))
    writer = acker.root(lines, "id").writeStream.foreachBatch(run)
    writer.option("checkpointLocation", str(home / "checkpoint")).start()
    assert works.wait(PATIENCE_S)
    session.stop()
    assert ended.wait(PATIENCE_S)


if __name__ == "__main__":
    main()
