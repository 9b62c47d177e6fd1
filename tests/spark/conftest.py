"""One Spark session for all tests of the connector, and a real acker."""

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark.mailboxes import completions, mailbox, options, reader, sink  # noqa: F401 - fixtures
from tests.spark.session import make_session
from tests.spark.tracked import Tracked
from tests.support.java import need_java
from tests.support.servers import AckerProcess, acker_serve

PATIENCE_S = 400
"""The first test starts a Spark and an acker; all of them run queries, on a machine that may be busy."""

LEAVES_SOCKETS = pyspark.__version__.startswith(("4.0.", "4.1."))
"""Its collect() closes no socket, and Python complains of that."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
        if LEAVES_SOCKETS:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def java() -> None:
    """What Spark runs on."""
    need_java()


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session."""
    session = make_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def acker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """A real acker with its embedded store, for the whole run: a test takes a topology of its own."""
    folder: Path = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as process:
        yield process


@pytest.fixture
def tracked(acker_process: AckerProcess) -> Iterator[Tracked]:
    """A topology of the test's own."""
    found = Tracked(process=acker_process)
    yield found
    found.close()
