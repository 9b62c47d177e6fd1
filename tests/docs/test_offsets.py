"""What docs/offsets.md shows is what happens, with the broker that librdkafka simulates."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.examples import run
from tests.support.pages import DOCS
from tests.support.servers import acker_serve

pytestmark = pytest.mark.timeout(300)

SHOWN = "127.0.0.1:9092"


@pytest.fixture
def kafka() -> Iterator[str]:
    """The address of a simulated broker; it runs as long as the producer that started it."""
    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=20).brokers.values()
    yield f"{broker.host}:{broker.port}"
    producer.flush()


def test_the_page_about_offsets_works_when_pasted(kafka: str, tmp_path: Path) -> None:
    page = (DOCS / "offsets.md").read_text()
    assert SHOWN in page
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        run(page.replace(SHOWN, kafka), "python", url=acker.url, folder=tmp_path)
