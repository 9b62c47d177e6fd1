"""The Valkey on which time is driven by the tests."""

import asyncio
from collections.abc import Iterator

import pytest
from acker_service.redis.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def driven_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Valkey of its own: its library reads the test's clock."""
    embedded = EmbeddedServer(tmp_path_factory.mktemp("driven"))
    asyncio.run(embedded.start())
    yield embedded.url
    asyncio.run(embedded.stop())
