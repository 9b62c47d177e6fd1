"""A subscriber of FastStream on a real Kafka is a bolt: the rows for Kafka of the table in docs/faststream.md."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from acker_client import UsageError
from faststream import AckPolicy

from examples.support.acker import create_topology
from examples.support.kafka import KafkaBroker
from tests.support import faststream
from tests.support.faststream import App, tracked_app

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.fixture
async def app(kafka: KafkaBroker, acker_url: str) -> AsyncIterator[App]:
    topology = f"messages-{secrets.token_hex(4)}"
    create_topology(acker_url, topology, message_timeout=300, dedupe_window=600)
    async with tracked_app("kafka", kafka.address, acker_url, topology) as found:
        for suffix in ("", "-2", "-children"):
            kafka.create_topic(found.queue + suffix)
        yield found


async def test_what_grows_while_it_runs_is_one_tree(app: App) -> None:
    await faststream.grows_while_it_runs(app)


async def test_an_exception_leaves_the_tuple_open_where_the_record_is_read_again(app: App) -> None:
    await faststream.is_delivered_again_after_an_exception(app)


@pytest.mark.parametrize("policy", [AckPolicy.ACK, AckPolicy.ACK_FIRST])
async def test_an_exception_fails_the_root_where_the_offset_is_committed(app: App, policy: AckPolicy) -> None:
    await faststream.fails_by_an_exception(app, policy)


@pytest.mark.parametrize("when", ["before", "between"])
async def test_a_worker_that_dies_before_its_ack_or_before_the_commit_loses_nothing(
    app: App, tmp_path: Path, when: str
) -> None:
    await faststream.outlives_its_worker(app, tmp_path, when)


async def test_several_messages_in_one_batch_are_refused_since_they_would_share_an_edge(app: App) -> None:
    await app.broker.start()
    with pytest.raises(UsageError, match="would share one edge"):
        async with app.spout.emit(message_id="m"):
            await app.broker.publish_batch("a", "b", topic=app.queue)
