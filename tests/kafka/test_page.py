"""What the page about Kafka shows is what happens."""

from pathlib import Path

import pytest

from examples.support.kafka import KafkaBroker
from tests.support.examples import run
from tests.support.pages import DOCS

pytestmark = pytest.mark.timeout(300)

SHOWN = "127.0.0.1:9092"


def test_the_page_about_kafka_works_when_pasted(kafka: KafkaBroker, acker_url: str, tmp_path: Path) -> None:
    page = (DOCS / "kafka.md").read_text()
    assert SHOWN in page
    run(page.replace(SHOWN, kafka.address), "python", url=acker_url, folder=tmp_path)
