"""All troubles at once, each on an acker of its own, so that what takes a minute to show takes it only once."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.runbook.troubles import TROUBLES, Scene


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scene]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(stage(tmp_path_factory.mktemp(name))) for name, stage in TROUBLES.items()}
