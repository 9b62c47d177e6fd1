"""The distributions work where nothing else is installed, as docs/install.md and each README.md say.

Needs the package index, for what others wrote.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from acker_service import VERSION

from tests.dist.building import FOLDERS, ROOT
from tests.dist.environments import Environment, interpreters, make_environment
from tests.support.pages import DOCS, PAGES, fences
from tests.support.servers import AckerProcess, free_port

pytestmark = pytest.mark.timeout(1200)

PAGE = DOCS / "install.md"
FROM_REPOSITORY, MAKE_DIST, LOCKED_WHEELS, CONNECTOR, WORKS = [fence.code for fence in fences(PAGE.read_text())]
HERE = f"<!-- tested by {Path(__file__).relative_to(ROOT)} -->"

PYTHONS = interpreters()

ROUND_TRIP = """
import sys
from acker_client import Acker

with Acker(sys.argv[1]) as acker:
    spout = acker.spout("reader")
    with spout.emit(message_id="42"):
        pass
    done = []
    spout.listen(on_ack=done.append, on_fail=lambda *failed: sys.exit(1), stop=lambda: done)
    print(done)
"""


@pytest.fixture(scope="module", params=PYTHONS, ids=[f"3.{minor}" for minor in PYTHONS])
def environment(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """An empty environment of each Python that is here."""
    python = PYTHONS[request.param]
    if python is None:
        pytest.skip(f"no Python 3.{request.param} is here")
    return make_environment(python, tmp_path_factory.mktemp("venv") / "venv", cwd=repository)


def test_the_wheels_work_alone(environment: Environment, tmp_path: Path) -> None:
    """Step by step: the client alone, the service and its store, the connector."""
    client = f"dist/acker_client-{VERSION}-py3-none-any.whl"
    assert client in LOCKED_WHEELS
    environment.paste(f"pip install {client}")
    refused = environment.run("acker", "serve")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "acker-service" in refused.stderr
    assert environment.paste("acker version") == f"{VERSION}\nhot path: interpreted\n"
    unwell = environment.run("acker", "health", "--acker", "http://127.0.0.1:1")
    assert (unwell.returncode, unwell.stderr.partition(":")[0]) == (1, "acker")

    environment.paste(without_constraints(LOCKED_WHEELS))
    environment.paste("pip check")
    with serving(environment, tmp_path) as url:
        assert environment.run("acker", "health", "--acker", url).stdout == "ready\n"
        assert environment.run("python", "-c", ROUND_TRIP, url).stdout == "['42']\n"

    environment.paste(CONNECTOR)
    environment.paste("pip check")
    assert environment.paste(WORKS) == f"{VERSION}\nhot path: interpreted\n"
    for package in ("acker_protocol", *FOLDERS, "pyspark_acker"):
        shown = environment.paste(f"cd / && python -c 'import {package}; print({package}.__file__)'")
        assert Path(shown.strip()).is_relative_to(environment.folder)


THIN = """
from importlib.metadata import packages_distributions
import acker_spark, pyspark
acker = acker_spark.SparkAcker(url="http://127.0.0.1:8700", topology="t", spout_task="s", query_id="q")
acker.foreach_batch(lambda batch, batch_id, collector: None)
print(pyspark.__version__, *packages_distributions()["pyspark"])
"""


@pytest.mark.parametrize("extra", ["", "[connect]"], ids=["no extra", "connect"])
def test_the_connector_leaves_the_thin_client_of_spark_connect_as_it_is(
    repository: Path, tmp_path: Path, extra: str
) -> None:
    environment = make_environment(some_python(), tmp_path / "venv", cwd=repository)
    environment.paste("pip install pyspark-client")
    before = environment.paste("pip freeze").splitlines()
    [thin] = [line for line in before if line.startswith("pyspark")]
    environment.paste(f"pip install ./client './spark_connector{extra}'")
    environment.paste("pip check")
    assert set(before) - set(environment.paste("pip freeze").splitlines()) == set()
    assert environment.paste(f"python -c '{THIN}'").split() == [thin.partition("==")[2], "pyspark-client"]


def test_without_a_pyspark_the_connector_says_which_to_install(repository: Path, tmp_path: Path) -> None:
    environment = make_environment(some_python(), tmp_path / "venv", cwd=repository)
    environment.paste("pip install ./client ./spark_connector")
    refused = environment.run("python", "-c", "import acker_spark")
    assert refused.returncode == 1
    assert "this Python has none: pip install 'acker-spark[pyspark]'" in refused.stderr


def test_what_the_pages_say_of_the_repository_works(repository: Path, tmp_path: Path) -> None:
    environment = make_environment(some_python(), tmp_path / "venv", cwd=repository)
    for page in PAGES:
        for fence in fences(page.read_text()):
            if fence.mark == HERE:
                environment.paste(fence.code)
    environment.paste(FROM_REPOSITORY)
    assert environment.paste(WORKS) == f"{VERSION}\nhot path: interpreted\n"


def test_the_page_s_other_commands_are_those_of_the_makefile() -> None:
    assert MAKE_DIST == "make dist"  # the tests' own distributions are made by it


def some_python() -> Path:
    return next(python for python in PYTHONS.values() if python)


def without_constraints(commands: str) -> str:
    """Leave the choice to the lock alone: hashes and constraints without any do not go together."""
    return f"unset PIP_CONSTRAINT\n{commands}"


@contextmanager
def serving(environment: Environment, folder: Path) -> Iterator[str]:
    """Run `acker serve` of the environment, with its embedded store, until the block is left, and yield its address."""
    port = free_port()
    program = str(environment.folder / "bin" / "acker")
    command = [program, "serve", "--port", str(port), "--data-dir", str(folder / "data")]
    acker = AckerProcess(f"http://127.0.0.1:{port}", command, folder / "serve.log", environment.variables())
    try:
        acker.wait_until_ready()
        yield acker.url
        assert acker.terminate() == 0
    finally:
        acker.http.close()
        acker.kill()
