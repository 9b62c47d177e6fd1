"""One Spark session for all tests of the connector, and a real acker."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.servers import AckerProcess, acker_serve

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What starts soonest; nothing here runs for long enough to be worth compiling well."""


@pytest.fixture(scope="session")
def java() -> None:
    """Skip where there is no Java, but fail where CI is set: `.ci/run` installs one."""
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("Java is missing, and .ci/run should have installed it")
    pytest.skip("Java 17 or later is not installed: Spark needs it (apt-get install openjdk-17-jre-headless)")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session."""
    scratch = tmp_path_factory.mktemp("spark")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").appName("acker-tests")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JVM,
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def acker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """A real acker with its embedded store, for the whole run: a test takes a topology of its own."""
    folder: Path = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as process:
        yield process
