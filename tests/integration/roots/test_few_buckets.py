"""A topology that keeps too many roots in a bucket is named in the log."""

import logging

import pytest
from acker_service.components import Components
from acker_service.monitoring import snapshot
from acker_service.topologies.config import TopologyConfig

from tests.support.caller import Caller, ack, init

pytestmark = pytest.mark.anyio


async def test_too_few_buckets_are_warned_of_once(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshot, "MAX_ROOTS_PER_BUCKET", 8)
    await parts.registry.create_or_update("narrow", lambda _: TopologyConfig(ackers=2, buckets=2))
    narrow = Caller(call.http, "narrow")
    warned = []
    with caplog.at_level(logging.WARNING, logger=snapshot.__name__):
        for operation, roots in (
            (init, range(1, 32)),
            (init, range(32, 41)),
            (init, range(41, 42)),
            (ack, range(1, 30)),
        ):
            await narrow.states(*[operation(root, 9) for root in roots])
            await parts.monitor.refresh()
            warned.append(len(caplog.records))
        await narrow.states(*[init(root, 9) for root in range(50, 80)])
        await parts.monitor.refresh()
    assert (warned, len(caplog.records)) == ([0, 1, 1, 1], 2)
    assert "topology narrow keeps 40 pending roots in 4 buckets" in caplog.records[0].getMessage()
