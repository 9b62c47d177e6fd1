"""Spans of roots and bolts, as docs/opentelemetry.md tells: each row of its table, with a receiver of OTLP."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from acker_client import Acker, AsyncAcker, Completion, DropTuple, FailTuple, Outcome, UsageError, webhook_app
from acker_client.integrations.opentelemetry import RootSpans, instrument
from acker_client.testing import MemoryAcker
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased

from tests.support.otlp import ReceivedSpan, Receiver, receiving
from tests.support.receivers import served
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(300)

T = TypeVar("T")
BOLT = Path(__file__).with_name("otel_bolt.py")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    with closing_provider(receiver) as found:
        yield found


class closing_provider(closing[TracerProvider]):  # noqa: N801 - as contextlib.closing
    """A provider that sends each span as it ends; ``sampler`` as the SDK takes it."""

    def __init__(self, receiver: Receiver, **options: Any) -> None:
        found = TracerProvider(resource=Resource.create({"service.name": "here"}), **options)
        found.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(receiver.endpoint)))
        super().__init__(found)

    def __exit__(self, *_: object) -> None:
        self.thing.shutdown()


@pytest.fixture
def acker(client: Acker, provider: TracerProvider) -> Acker:
    instrument(client, tracer_provider=provider)
    return client


def emit(acker: Acker, message_id: str = "m1", spout: str = "orders", **options: Any) -> tuple[str, dict[str, str]]:
    """Emit a root with one child; give its id and the child's headers."""
    with acker.shared_spout(spout).emit(message_id, **options) as root:
        headers = root.headers()
    return root.root_id, headers


def read(acker: Acker, count: int = 1, spout: str = "orders") -> list[Completion]:
    found: list[Completion] = []
    for completion in acker.shared_spout(spout).completions(until=100, stop=lambda: len(found) >= count):
        found.append(completion)  # noqa: PERF402 - `stop` looks at it
    return found


def only(found: list[T]) -> T:
    assert len(found) == 1, found
    return found[0]


def root_span(acker: Acker, receiver: Receiver) -> ReceivedSpan:
    return only(receiver.named(f"{acker.topology} root"))


def run(acker: Acker, process: AckerProcess, receiver: Receiver, *args: str) -> int:
    """Run a process of otel_bolt.py to its end; give its exit code."""
    command = [sys.executable, str(BOLT), process.url, acker.topology, receiver.endpoint, *args]
    return subprocess.run(command, timeout=100, check=False).returncode


def test_a_roots_span_ends_when_its_tree_is_done_and_its_bolts_are_below_it(acker: Acker, receiver: Receiver) -> None:
    root_id, headers = emit(acker)
    with acker.receive(headers, component="split") as tup:
        child = tup.headers()
    assert [span.name for span in receiver.spans] == ["split"]  # the root's span is still open
    with acker.receive(child, component="count"):
        pass
    done = only(read(acker))
    root, split, count = root_span(acker, receiver), only(receiver.named("split")), only(receiver.named("count"))
    assert (root.span_id, root.parent, root.status) == (root_id, "", "ok")
    assert (split.parent, count.parent) == (root_id, split.span_id)
    assert {root.trace_id, split.trace_id, count.trace_id} == {root.trace_id}
    assert root.attributes == {
        "acker.topology": acker.topology, "acker.root_id": root_id, "acker.outcome": "acked", "acker.message_id": "m1",
    }  # fmt: skip
    assert root.end_ns == round(done.at * 1_000) * 1_000_000
    assert root.end_ns - root.start_ns == round(done.complete_latency * 1_000) * 1_000_000
    assert count.attributes == {
        "acker.topology": acker.topology, "acker.component": "count", "acker.root_ids": [root_id],
    }  # fmt: skip


def test_a_root_that_is_emitted_in_a_span_belongs_to_it(
    acker: Acker, provider: TracerProvider, receiver: Receiver
) -> None:
    with provider.get_tracer("shop").start_as_current_span("POST /orders") as request:
        root_id, headers = emit(acker)
        assert trace.get_current_span() is request
    with acker.receive(headers, component="split"):
        pass
    read(acker)
    asked, root, split = only(receiver.named("POST /orders")), root_span(acker, receiver), only(receiver.named("split"))
    assert (root.parent, split.parent, asked.parent) == (asked.span_id, root.span_id, "")
    assert root.span_id == root_id
    assert {root.trace_id, split.trace_id} == {asked.trace_id}


def test_a_traceparent_that_is_given_at_emit_is_the_parent(acker: Acker, receiver: Receiver) -> None:
    _, headers = emit(acker, traceparent=TRACEPARENT)
    with acker.receive(headers, component="split"):
        pass
    assert only(read(acker)).traceparent == TRACEPARENT
    root = root_span(acker, receiver)
    assert (root.trace_id, root.parent) == (TRACEPARENT[3:35], TRACEPARENT[36:52])


def test_a_bolt_that_fails_ends_the_span_of_the_root_with_an_error(acker: Acker, receiver: Receiver) -> None:
    _, headers = emit(acker)
    with acker.receive(headers, component="charge"):
        raise FailTuple("no such card")
    read(acker)
    root, charge = root_span(acker, receiver), only(receiver.named("charge"))
    assert (root.status, root.message) == ("error", "no such card")
    assert (root.attributes["acker.outcome"], root.attributes["acker.component"]) == ("failed", "charge")
    assert charge.status == "error"


def test_a_tuple_that_is_dropped_or_failed_by_hand(acker: Acker, receiver: Receiver) -> None:
    for message_id in ("dropped", "failed"):
        _, headers = emit(acker, message_id)
        with acker.receive(headers, component=message_id) as tup:
            if message_id == "dropped":
                raise DropTuple
            tup.fail("by hand")
    read(acker, 2)
    assert {span.attributes["acker.message_id"]: span.status for span in receiver.named(f"{acker.topology} root")} == {
        "dropped": "ok", "failed": "error",
    }  # fmt: skip
    assert (only(receiver.named("dropped")).status, only(receiver.named("failed")).status) == ("unset", "error")


def test_a_worker_that_is_killed_and_the_root_times_out(
    acker: Acker, process: AckerProcess, receiver: Receiver
) -> None:
    root_id, headers = emit(acker, message_timeout=1)
    assert run(acker, process, receiver, "bolt", json.dumps(headers), "die") == -signal.SIGKILL
    read(acker)
    root = root_span(acker, receiver)
    assert (root.span_id, root.status, root.message) == (root_id, "error", "timed_out")
    assert root.end_ns - root.start_ns >= 1_000_000_000
    assert len(receiver.spans) == 1  # the span of the killed worker is lost


def test_a_worker_that_is_killed_and_the_message_is_delivered_again(
    acker: Acker, process: AckerProcess, receiver: Receiver
) -> None:
    root_id, headers = emit(acker)
    assert run(acker, process, receiver, "bolt", json.dumps(headers), "die") == -signal.SIGKILL
    assert run(acker, process, receiver, "bolt", json.dumps(headers)) == 0
    read(acker)
    root, count = root_span(acker, receiver), only(receiver.named("count"))
    assert (root.span_id, root.status, count.parent, count.service) == (root_id, "ok", root_id, "bolt")


def test_another_process_than_the_emitter_reads_the_completion_and_exports_the_span(
    acker: Acker, process: AckerProcess, receiver: Receiver
) -> None:
    root_id, headers = emit(acker)
    with acker.receive(headers, component="split"):
        pass
    assert run(acker, process, receiver, "read", "orders") == 0
    root = root_span(acker, receiver)
    assert (root.service, root.span_id, root.trace_id) == ("read", root_id, only(receiver.named("split")).trace_id)


def test_a_reader_that_is_killed_leaves_the_span_to_the_next(acker: Acker, receiver: Receiver) -> None:
    root_id, headers = emit(acker)
    with acker.receive(headers, component="split"):
        pass
    for _ in acker.shared_spout("orders").completions():
        break  # as a reader that dies in the loop body: nothing was handled
    assert not receiver.named(f"{acker.topology} root")
    read(acker)
    assert root_span(acker, receiver).span_id == root_id


def test_a_completion_that_comes_twice_gives_equal_spans(
    acker: Acker, provider: TracerProvider, receiver: Receiver
) -> None:
    _, headers = emit(acker)
    with acker.receive(headers, component="split"):
        pass
    RootSpans(acker.topology, tracer_provider=provider).export([*read(acker)] * 2)
    first, *others = receiver.named(f"{acker.topology} root")
    assert others == [first, first]


def test_what_is_not_sampled_is_not_exported_and_bolts_keep_to_it(client: Acker, receiver: Receiver) -> None:
    with closing_provider(receiver, sampler=ALWAYS_OFF) as off, closing_provider(receiver) as on:
        instrument(client, tracer_provider=off)
        _, headers = emit(client)
        assert headers["traceparent"].endswith("-00")
        instrument(client, tracer_provider=on)
        with client.receive(headers, component="split"):
            pass
        done = only(read(client))
        assert done.traceparent is not None
        assert done.traceparent.endswith("-00")
        assert receiver.spans == []


def test_a_sampler_by_ratio_decides_once_for_each_root_and_all_trees_are_counted(
    client: Acker, receiver: Receiver
) -> None:
    count = 200
    with closing_provider(receiver, sampler=TraceIdRatioBased(0.5)) as provider:
        instrument(client, tracer_provider=provider)
        found = [emit(client, f"m{number}") for number in range(count)]
        for _, headers in found:
            with client.receive(headers, component="split"):
                pass
        assert len({done.root_id for done in read(client, count)}) == count
    roots = receiver.named(f"{client.topology} root")
    assert 0 < len(roots) < count  # spans are no edges: the acker counts every one
    assert {span.span_id for span in roots} == {span.parent for span in receiver.named("split")}


def test_a_bolt_in_a_span_makes_none_of_its_own(acker: Acker, provider: TracerProvider, receiver: Receiver) -> None:
    roots = [emit(acker, f"m{number}") for number in range(3)]
    with provider.get_tracer("shop").start_as_current_span("batch"), acker.batch():
        for _, headers in roots:
            with acker.receive(headers, component="count"):
                pass
    assert [span.name for span in receiver.spans] == ["batch"]  # one for the batch, none for a tuple or an ack
    batch = receiver.spans[0]
    assert batch.attributes["acker.root_ids"] == [root_id for root_id, _ in roots]
    assert sorted(batch.links) == sorted(root_id for root_id, _ in roots)


def test_a_webhook_exports_the_spans_and_is_linked_to_them(
    acker: Acker, process: AckerProcess, provider: TracerProvider, receiver: Receiver
) -> None:
    spans, tracer = RootSpans(acker.topology, tracer_provider=provider), provider.get_tracer("shop")

    def handle(completion: Completion) -> None:
        with tracer.start_as_current_span("POST /acked"):
            spans.export([completion])

    with served(webhook_app(SECRET, handle)) as port:
        root_id, headers = emit(acker)
        spout = f"{process.url}/v1/topologies/{acker.topology}/spouts/orders"
        callback = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/", "secret": SECRET}
        assert httpx.put(spout, json={"callback": callback}).status_code == 200
        with acker.receive(headers, component="split"):
            pass
        eventually_true(lambda: receiver.named("POST /acked"))
    root = root_span(acker, receiver)
    assert (root.span_id, root.trace_id) == (root_id, only(receiver.named("split")).trace_id)
    assert only(receiver.named("POST /acked")).links == (root_id,)


def test_each_attempt_of_a_replay_is_a_root_with_a_span(acker: Acker, receiver: Receiver) -> None:
    sent: list[dict[str, str]] = []
    replay = acker.spout("orders").replay(lambda root, _: sent.append(root.headers()))
    replay.emit("m1")
    for number in (1, 2):
        with acker.receive(sent[-1], component="charge"):
            if number == 1:
                raise FailTuple
        replay.run(until=100, stop=lambda number=number: len(sent) > number or not replay.pending)  # type: ignore[misc]
    assert [span.status for span in receiver.named(f"{acker.topology} root")] == ["error", "ok"]


def test_tasks_of_asyncio_trace_as_threads_do(
    client: Acker, process: AckerProcess, provider: TracerProvider, receiver: Receiver
) -> None:
    async def work() -> str:
        async with AsyncAcker(process.url, client.topology) as acker:
            instrument(acker, tracer_provider=provider)
            spout = acker.spout("orders")
            async with spout.emit("m1") as root:
                headers = root.headers()
            async with acker.receive(headers, component="split"):
                pass
            found: list[Completion] = []
            async for completion in spout.completions(until=100, stop=lambda: bool(found)):
                found.append(completion)  # noqa: PERF401 - `stop` looks at it
            return root.root_id

    root_id = asyncio.run(work())
    assert (root_span(client, receiver).span_id, only(receiver.named("split")).parent) == (root_id, root_id)


def test_inits_of_a_batch_carry_their_traceparents(acker: Acker, receiver: Receiver) -> None:
    with acker.batch():
        roots = [emit(acker, f"m{number}") for number in range(3)]
    for _, headers in roots:
        with acker.receive(headers, component="count"):
            pass
    read(acker, 3)
    assert {span.span_id for span in receiver.named(f"{acker.topology} root")} == {root_id for root_id, _ in roots}


def test_an_acker_in_memory_gives_the_traceparent_back(provider: TracerProvider, receiver: Receiver) -> None:
    with MemoryAcker().acker() as acker:
        instrument(acker, tracer_provider=provider)
        root_id, headers = emit(acker)
        with acker.receive(headers, component="split"):
            pass
        read(acker)
    assert root_span(acker, receiver).span_id == root_id


def test_uninstrumented_again_nothing_is_traced(client: Acker, provider: TracerProvider, receiver: Receiver) -> None:
    instrument(client, tracer_provider=provider).uninstrument()
    _, headers = emit(client)
    with client.receive(headers, component="split"):
        pass
    assert only(read(client)).traceparent is None
    assert "traceparent" not in headers
    assert receiver.spans == []


def test_an_exporter_that_raises_keeps_no_completion(client: Acker, provider: TracerProvider) -> None:
    spans = instrument(client, tracer_provider=provider)
    client.observe(handled=lambda completions: spans.export_handled((*completions, None)))  # type: ignore[arg-type]
    _, headers = emit(client, traceparent=TRACEPARENT)
    with client.receive(headers, component="split"):
        pass
    assert only(read(client)).outcome is Outcome.ACKED
    assert list(client.shared_spout("orders").completions(until=0)) == []  # it was released


def test_without_the_sdk_it_is_refused(client: Acker) -> None:
    with pytest.raises(UsageError, match=re.escape("call opentelemetry.trace.set_tracer_provider(TracerProvider())")):
        instrument(client)
