"""A subscriber of FastStream on a real NATS is a bolt: the rows for NATS of the table in docs/faststream.md."""

from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from acker_client import Acker
from faststream import AckPolicy
from faststream.exceptions import NackMessage
from nats.js.api import ConsumerConfig

from tests.support import faststream
from tests.support.faststream import App, tracked_app
from tests.support.servers import AckerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]


@pytest.fixture
async def app(process: AckerProcess, nats_url: str, client: Acker) -> AsyncIterator[App]:
    client.topologies.create(client.topology, message_timeout=300, dedupe_window=600)
    async with tracked_app("nats", nats_url, process.url, client.topology) as found:
        yield found


async def test_what_grows_while_it_runs_is_one_tree(app: App) -> None:
    await faststream.grows_while_it_runs(app)


async def test_an_exception_leaves_the_tuple_open_where_the_stream_delivers_again(app: App) -> None:
    await faststream.is_delivered_again_after_an_exception(app)


@pytest.mark.parametrize("policy", [AckPolicy.REJECT_ON_ERROR, AckPolicy.ACK])
async def test_an_exception_fails_the_root_where_the_stream_does_not_deliver_again(app: App, policy: AckPolicy) -> None:
    await faststream.fails_by_an_exception(app, policy)


@pytest.mark.parametrize("raised", [ValueError, NackMessage])
async def test_an_exception_fails_the_root_on_a_subject_without_a_stream(app: App, raised: type[Exception]) -> None:
    """It knows no acks, so that a policy that would deliver again does nothing."""

    @app.broker.subscriber(app.queue)
    async def refuse(line: str) -> None:
        assert line
        raise raised

    await app.broker.start()
    await app.emit()
    completion = await app.completion()
    assert (completion.outcome, completion.component) == ("failed", "Refuse")


async def test_a_subject_without_a_stream_is_acked_when_its_subscriber_returns(app: App) -> None:
    @app.broker.subscriber(app.queue)
    async def work(line: str) -> None:
        app.done[line] += 1

    await app.broker.start()
    await app.emit()
    assert ((await app.completion()).outcome, app.done) == ("acked", {"line": 1})


async def test_a_backoff_replaces_ack_wait_by_its_first_step(nats_url: str) -> None:
    connection = await nats.connect(nats_url)
    stream = connection.jetstream()
    await stream.add_stream(name="steps", subjects=["steps"])
    config = ConsumerConfig(durable_name="worker", ack_wait=30, backoff=[1, 5], max_deliver=3)
    info = await stream.add_consumer("steps", config)
    await connection.close()
    assert info.config.ack_wait == 1


@pytest.mark.parametrize("when", ["before", "between"])
async def test_a_worker_that_dies_before_its_ack_or_before_that_of_the_stream_loses_nothing(
    app: App, tmp_path: Path, when: str
) -> None:
    await faststream.outlives_its_worker(app, tmp_path, when)
