"""The fixtures ``acker`` and ``acker_clock`` of pytest, which finds them by its entry points. ::

@pytest.mark.acker(dedupe_window=60)  # the keywords of MemoryAcker; leave the mark out for its defaults
def test_an_order_that_is_not_charged_times_out(acker, acker_clock):
    with acker.acker() as client:
        ...  # the program under test
    acker_clock.advance(31)
    assert acker.completions("orders") == ["42"]
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from acker_client.testing import Clock, MemoryAcker

__all__ = ["acker", "acker_clock"]


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, for programs that use ``--strict-markers``."""
    config.addinivalue_line("markers", "acker(topology, **options): what the MemoryAcker of this test is made with")


@pytest.fixture
def acker_clock() -> "Clock":
    """Return the clock of the ``acker`` of this test: its time passes only by ``advance``."""
    from acker_client.testing import Clock  # noqa: PLC0415 - httpx is imported where a test needs it

    return Clock()


@pytest.fixture
def acker(request: pytest.FixtureRequest, acker_clock: "Clock") -> "MemoryAcker":
    """Return an acker in memory, empty in each test, with the arguments of the mark ``acker`` next to the test."""
    from acker_client.testing import MemoryAcker  # noqa: PLC0415 - httpx is imported where a test needs it

    mark = request.node.get_closest_marker("acker")
    arguments, options = (mark.args, mark.kwargs) if mark else ((), {})
    return MemoryAcker(*arguments, **{"clock": acker_clock, **options})
