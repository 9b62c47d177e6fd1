"""The Spark session of the tests, and of the drivers that they start."""

import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What starts soonest; nothing here runs for long enough to be worth compiling well."""

MASTER = "local[2, 3]"
"""Two cores, and a task that fails is tried again."""


def make_session(scratch: Path, *, master: str = MASTER, partitions: int = 2, **options: str) -> SparkSession:
    """Make the session; underscores in the names of further options stand for dots."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    wanted = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JVM,
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    builder = SparkSession.builder.master(master).appName("acker-tests")
    for name, value in wanted.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
