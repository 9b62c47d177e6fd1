"""A small, quiet Spark for one machine; everything that it writes lies in one folder."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from examples.support.reports import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    Start = Callable[[], StreamingQuery]

LOOK_S = 0.1
RESTARTS = 5
"""A query that fails oftener ends its driver."""


def start_session(folder: Path) -> SparkSession:
    """Start a local Spark with two cores. Its workers are this Python: PYSPARK_PYTHON would be another one's."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName(folder.name)
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def run_queries(starts: "Mapping[str, Start]") -> None:
    """Run queries until the process is ended; one that fails is started again, and goes on from its checkpoint."""
    running = {name: start() for name, start in starts.items()}
    failures = dict.fromkeys(starts, 0)
    report(ready=True)
    while max(failures.values()) <= RESTARTS:
        for name, query in running.items():
            if query.isActive:
                continue
            failures[name] += 1
            report(query=name, failed=_cause(query), times=failures[name])
            running[name] = starts[name]()
        time.sleep(LOOK_S)
    raise SystemExit(f"a query failed more than {RESTARTS} times")


def _cause(query: "StreamingQuery") -> str:
    """Return the last line of a traceback: what was raised in the function of a batch."""
    lines = str(query.exception() or "it ended").splitlines()
    raised = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (raised or lines)[-1].strip()
