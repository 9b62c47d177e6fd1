"""Fixtures of the conformance tests: the languages and their drivers, a real acker, and the proxy before it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.programs import LANGUAGES, Driver, driver_of
from tests.conformance.proxy import FaultProxy, fault_proxy
from tests.support.servers import AckerProcess, acker_serve

OPTIONS = ("--callback-allow-cidrs", "127.0.0.0/8", "--callback-schedule-s", "0.2,0.2,0.2,0.2")
"""The acker of the scenarios posts to this machine, and soon again."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play for each language that is asked for, those of one language in one worker."""
    if "language" in metafunc.fixturenames:
        names = _asked_for(metafunc.config)
        one_worker = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
        metafunc.parametrize("language", one_worker, scope="session")


def _asked_for(config: pytest.Config) -> list[str]:
    """Return the languages that --client names, Python without it."""
    names: list[str] = config.getoption("client") or ["python"]
    return [*LANGUAGES] if "all" in names else names


@pytest.fixture(scope="session")
def languages(request: pytest.FixtureRequest) -> list[str]:
    """The languages that are asked for, and whose programs this machine has."""
    return [name for name in _asked_for(request.config) if not LANGUAGES[name].missing]


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Driver]]:
    """The driver of a language, started when it is first asked for."""
    folder, running = tmp_path_factory.mktemp("drivers"), dict[str, tuple[Driver, object]]()

    def start(name: str) -> Driver:
        if name not in running:
            scope = driver_of(LANGUAGES[name], folder)
            running[name] = (scope.__enter__(), scope)
        return running[name][0]

    yield start
    for _, scope in running.values():
        scope.__exit__(None, None, None)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def driver(language: str, drivers: Callable[[str], Driver]) -> Driver:
    """The driver of this test's language."""
    missing = LANGUAGES[language].missing
    if missing:
        pytest.skip(f"the client for {language} needs {', '.join(missing)}")
    return drivers(language)


@pytest.fixture(scope="session")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """A real acker, with a store of its own."""
    folder: Path = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *OPTIONS) as acker:
        yield acker


@pytest.fixture(scope="session")
def proxy(acker: AckerProcess) -> Iterator[FaultProxy]:
    """The proxy before it."""
    with fault_proxy(int(acker.url.rpartition(":")[2])) as proxy:
        yield proxy
