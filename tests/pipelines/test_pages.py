"""What the page about RabbitMQ shows is what happens."""

from pathlib import Path

import pytest

from examples.support.broker import Broker
from tests.support.examples import run
from tests.support.pages import DOCS

pytestmark = pytest.mark.timeout(400)


def test_the_page_about_rabbitmq_works_when_pasted(broker: Broker, acker_url: str, tmp_path: Path) -> None:
    shown = "amqp://guest:guest@127.0.0.1:5672/%2F"
    page = (DOCS / "rabbitmq.md").read_text()
    assert shown in page
    run(page.replace(shown, broker.url), "python", url=acker_url, folder=tmp_path)
