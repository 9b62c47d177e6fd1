"""A collector that samples at the tail decides about a trace when the tree of its root is done."""

from collections.abc import Iterator

import pytest
from acker_client import Acker, FailTuple
from acker_client.integrations.opentelemetry import instrument
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.collector.conftest import Collector
from tests.integrations.test_opentelemetry import emit, read
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(1800)

DECIDED_S = 5.0
"""Longer than a collector waits behind the span of a root."""


@pytest.fixture
def acker(client: Acker, collector: Collector) -> Iterator[Acker]:
    """A client whose spans go to the collector."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector.endpoint)))
    instrument(client, tracer_provider=provider)
    yield client
    provider.shutdown()


def _work(acker: Acker, message_id: str, *, fails: bool = False, to_the_end: bool = True) -> str:
    """Emit a root, split it, and charge it if it is to end; give its id."""
    root_id, headers = emit(acker, message_id)
    with acker.receive(headers, component="split") as tup:
        headers = tup.headers()
    if to_the_end:
        with acker.receive(headers, component="charge"):
            if fails:
                raise FailTuple("no such card")
    return root_id


def test_the_whole_trace_of_a_failed_root_is_sampled_when_its_tree_is_done(acker: Acker, collector: Collector) -> None:
    failed = _work(acker, "failed", fails=True)
    never(lambda: collector.sampled.spans, for_s=DECIDED_S)  # the span of the bolt has an error, and the tree is open
    read(acker)
    eventually_true(lambda: len(collector.sampled.spans) == 3)
    assert sorted(span.name for span in collector.sampled.spans) == ["charge", "split", f"{acker.topology} root"]
    assert len({span.trace_id for span in collector.sampled.spans}) == 1
    assert next(span for span in collector.sampled.spans if span.name.endswith("root")).span_id == failed


def test_traces_of_acked_roots_are_dropped_and_those_of_open_trees_wait(acker: Acker, collector: Collector) -> None:
    _work(acker, "acked")
    _work(acker, "open", to_the_end=False)
    failed = _work(acker, "failed", fails=True)
    read(acker, 2)
    eventually_true(lambda: len(collector.sampled.spans) >= 3)
    never(lambda: len(collector.sampled.spans) > 3, for_s=DECIDED_S)
    roots = [span for span in collector.sampled.spans if span.name.endswith("root")]
    assert [(span.span_id, span.status) for span in roots] == [(failed, "error")]
