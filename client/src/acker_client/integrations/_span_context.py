"""Span contexts of roots: how they are chosen, written into traceparents and headers, and read again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from acker_client.errors import UsageError

if TYPE_CHECKING:
    from acker_protocol.anchors import Headers

SCOPE = "acker_client"
"""The name of the instrumentation scope of the spans of this client."""


class _ChosenIds(IdGenerator):
    """A generator of ids that returns those that were chosen for the span that starts now."""

    chosen: "ContextVar[tuple[int, int]]" = ContextVar("acker_span_ids")

    def generate_trace_id(self) -> int:
        return self.chosen.get()[0]

    def generate_span_id(self) -> int:
        return self.chosen.get()[1]


@contextmanager
def with_ids(trace_id: int, span_id: int) -> Iterator[None]:
    token = _ChosenIds.chosen.set((trace_id, span_id))
    try:
        yield
    finally:
        _ChosenIds.chosen.reset(token)


def finished_tracer(provider: TracerProvider) -> Tracer:
    """Return a tracer of the provider that takes chosen ids, and samples no more: that was decided at emit."""
    tracer = provider.get_tracer(f"{SCOPE}.roots")
    if not isinstance(tracer, Tracer):
        raise UsageError("the tracer provider is switched off (OTEL_SDK_DISABLED): do not instrument the client then")
    tracer.id_generator, tracer.sampler = _ChosenIds(), ALWAYS_ON
    return tracer


def around(own: SpanContext) -> Context:
    """Return the current context with this span, which is recorded elsewhere, as its span."""
    return trace.set_span_in_context(NonRecordingSpan(own))


def with_span(headers: dict[str, str], around: Context | None) -> dict[str, str]:
    """Add the headers of a context's span to those of anchors, if there are any."""
    if headers:
        propagate.inject(headers, context=around)
    return headers


def carrier(headers: "Headers") -> dict[str, str]:
    """Return a message's headers by lower-case names, as text; others than text and bytes are left out."""
    items = headers.items() if isinstance(headers, Mapping) else headers or ()
    found = {}
    for name, value in items:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if isinstance(text, str):
            found[(name.decode("latin-1") if isinstance(name, bytes) else str(name)).lower()] = text
    return found


def write_traceparent(own: SpanContext) -> str:
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"


def read_traceparent(traceparent: str) -> SpanContext:
    """Read a traceparent, whatever propagator the program has."""
    found = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context=Context())
    return trace.get_current_span(found).get_span_context()


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000) * 1_000_000
