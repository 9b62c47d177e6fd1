"""A Spark that reads and writes topics of a real Kafka."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from examples.support.kafka import KafkaBroker
from examples.support.maven import NoJars, find_classpath
from tests.kafka.conftest import kafka  # noqa: F401 - a fixture
from tests.spark.kafka.topics import Topic
from tests.spark.session import make_session

POM = Path(__file__).with_name("pom.xml")


@pytest.fixture(scope="session")
def jars() -> str:
    """What Spark needs for Kafka, in the version of this PySpark."""
    version = pyspark.__version__
    try:
        return find_classpath(POM, name=f"spark-kafka-{version}", spark_version=version).replace(os.pathsep, ",")
    except NoJars as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java: None, jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session."""
    session = make_session(tmp_path_factory.mktemp("spark"), spark_jars=jars)
    yield session
    session.stop()


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:  # noqa: F811 - a fixture
    """A topic of this test's own, with one partition."""
    return Topic.create(kafka, f"orders-{secrets.token_hex(4)}")
