"""Traces trees with OpenTelemetry: the span of a root ends when its tree is done. ::

    roots = instrument(acker)  # spans of roots and bolts, by the TracerProvider of the program

A root's span has the root id as its span id, so its children have a parent before it is exported. The process that
reads the completion exports it: the completion has the ``traceparent`` that the init gave. That names the span in
which the root was emitted or, without one, the root's own. Needs ``acker-client[opentelemetry]``.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from acker_protocol.ids import format_id, parse_id
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode, TraceFlags

from acker_client.errors import DropTuple, UsageError
from acker_client.integrations._span_context import (
    SCOPE,
    around,
    carrier,
    finished_tracer,
    nanoseconds,
    read_traceparent,
    with_ids,
    with_span,
    write_traceparent,
)
from acker_client.root import Root
from acker_client.tuple import AsyncTuple, Tuple

if TYPE_CHECKING:
    from types import TracebackType

    from acker_protocol.anchors import Headers

    from acker_client._client_base import BaseClient
    from acker_client._core.tuple_base import BaseTuple
    from acker_client.completions import Completion

__all__ = ["RootSpans", "instrument"]

MAX_ROOT_IDS = 128
"""A span of many tuples lists the root ids of so many."""

_log = logging.getLogger("acker_client")


def instrument(acker: "BaseClient", *, tracer_provider: TracerProvider | None = None) -> "RootSpans":
    """Trace the roots and the tuples of a client, `Acker` or `AsyncAcker`; by default with the program's provider.

    Raises `UsageError` unless the provider is one of OpenTelemetry's SDK. See `RootSpans.uninstrument`.
    """
    spans = RootSpans(acker.topology, tracer_provider=tracer_provider)
    make_tuple = TracedTuple if hasattr(acker, "__enter__") else TracedAsyncTuple
    acker.observe(
        root_class=type("TracedRoot", (TracedRoot,), {"__slots__": (), "spans": spans}),
        make_tuple=partial(make_tuple, spans),
        handled=spans.export_handled,
    )
    spans.uninstrument = acker.observe
    return spans


class RootSpans:
    """The spans of the roots of one topology: begun where a root is emitted, exported where its completion is read."""

    def __init__(self, topology: str, *, tracer_provider: TracerProvider | None = None) -> None:
        provider = tracer_provider or trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            raise UsageError(
                f"the tracer provider is {type(provider).__name__}, not one of OpenTelemetry's SDK: call "
                "opentelemetry.trace.set_tracer_provider(TracerProvider()) first, or give tracer_provider="
            )
        self.topology = topology
        self.provider = provider
        self.tracer = provider.get_tracer(SCOPE)
        self.uninstrument: Callable[[], None] = lambda: None
        self._tracer = finished_tracer(provider)

    def begin(self, root: Root, given: str | None) -> tuple[SpanContext, str]:
        """Choose the span context of a root, and the traceparent that its init carries.

        Its parent is ``given`` or the current span, whose sampling holds for the root. Without either the sampler of
        the provider decides.
        """
        parent = read_traceparent(given) if given else trace.get_current_span().get_span_context()
        span_id = parse_id(root.root_id)
        if parent.is_valid:
            own = SpanContext(parent.trace_id, span_id, False, parent.trace_flags, parent.trace_state)  # noqa: FBT003
            return own, write_traceparent(parent)
        trace_id, attributes = self.provider.id_generator.generate_trace_id(), {"acker.topology": self.topology}
        sampled = self.provider.sampler.should_sample(
            None, trace_id, self._name, SpanKind.PRODUCER, attributes=attributes
        )
        flags = TraceFlags.DEFAULT if sampled.decision is Decision.DROP else TraceFlags.SAMPLED
        own = SpanContext(trace_id, span_id, False, TraceFlags(flags))  # noqa: FBT003
        return own, write_traceparent(own)

    def export(self, completions: "Iterable[Completion]") -> None:
        """Export the spans of roots that have ended, and link the current span to each.

        Call it where no instrumented client reads the completions, as in a webhook. A completion that comes twice gives
        two equal spans: the same ids and times.
        """
        current = trace.get_current_span()
        for completion in completions:
            if completion.traceparent is not None:
                self._export(completion, current)

    def export_handled(self, completions: "tuple[Completion, ...]") -> None:
        """As `export`; an error is logged, for it must not keep completions from being released."""
        try:
            self.export(completions)
        except Exception:  # noqa: BLE001 - whatever an exporter raises, completions are released
            _log.exception("spans of %d roots were not exported", len(completions))

    @property
    def _name(self) -> str:
        return f"{self.topology} root"

    def _export(self, completion: "Completion", current: Span) -> None:
        assert completion.traceparent is not None
        parent, span_id = read_traceparent(completion.traceparent), parse_id(completion.root_id)
        own = SpanContext(parent.trace_id, span_id, True, parent.trace_flags)  # noqa: FBT003
        if current.is_recording():
            current.add_link(own, {"acker.root_id": completion.root_id})
        if not parent.trace_flags.sampled:
            return
        with with_ids(parent.trace_id, span_id):
            span = self._tracer.start_span(
                self._name,
                context=Context() if parent.span_id == span_id else around(parent),
                kind=SpanKind.PRODUCER,
                attributes=self._attributes(completion),
                start_time=nanoseconds(completion.at - completion.complete_latency),
            )
        if completion.acked:
            span.set_status(StatusCode.OK)
        else:
            span.set_status(StatusCode.ERROR, completion.reason or completion.outcome.value)
        span.end(nanoseconds(completion.at))

    def _attributes(self, completion: "Completion") -> dict[str, str]:
        found = {
            "acker.topology": self.topology,
            "acker.root_id": completion.root_id,
            "acker.outcome": completion.outcome.value,
            "acker.message_id": completion.message_id,
            "acker.reason": completion.reason,
            "acker.component": completion.component,
            "acker.last_component": completion.last_component,
        }
        return {name: value for name, value in found.items() if value is not None}


class TracedRoot(Root):
    """A root whose span is current in its emit block, and the parent of what is anchored to it."""

    __slots__ = ("_context", "_token", "_traceparent")

    spans: RootSpans

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._traceparent = self._options.traceparent
        self._context = None
        if self.tracked:
            own, self._traceparent = self.spans.begin(self, self._options.traceparent)
            self._context = around(own)

    @property
    def traceparent(self) -> str | None:
        """The traceparent of its init."""
        return self._traceparent

    def begin_block(self) -> None:
        """Make it and its span current."""
        super().begin_block()
        self._token = None if self._context is None else context.attach(self._context)

    def end_block(self) -> None:
        """Make current what was so before."""
        if self._token is not None:
            context.detach(self._token)
        super().end_block()

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Return the header of a child, and those of its span."""
        return with_span(super().headers(key), self._context)


class _TracedBlock:
    """The span of a tuple's block: the current one, which gets attributes, or else one of its own."""

    __slots__ = ("_own", "_parent", "_spans", "_tup")

    def __init__(self, spans: RootSpans, tup: "BaseTuple", headers: "Headers") -> None:
        self._spans = spans
        self._tup = tup
        self._parent = propagate.extract(carrier(headers))
        self._own: Any = None

    def begin(self) -> None:
        current, tup = trace.get_current_span(), self._tup
        if current.is_recording():
            _describe(current, tup)
            parent = trace.get_current_span(self._parent).get_span_context()
            if parent.is_valid and parent.trace_id != current.get_span_context().trace_id:
                current.add_link(parent)
            return
        span = self._spans.tracer.start_span(tup.component, context=self._parent, kind=SpanKind.CONSUMER)
        _describe(span, tup)
        self._own = span, context.attach(trace.set_span_in_context(span))

    def end(self, error: BaseException | None) -> None:
        if self._own is None:
            return
        (span, token), self._own = self._own, None
        context.detach(token)
        if isinstance(error, Exception) and not isinstance(error, DropTuple):
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        elif self._tup.failed:
            span.set_status(StatusCode.ERROR, "failed")
        span.end()


class TracedTuple(Tuple):
    """A tuple whose block has a span, the parent of what is anchored to it there."""

    __slots__ = ("_block",)

    def __init__(self, spans: RootSpans, headers: "Headers", **fields: Any) -> None:
        super().__init__(**fields)
        self._block = _TracedBlock(spans, self, headers)

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Return the header of a child, and those of the current span."""
        return with_span(super().headers(key), None)

    def __enter__(self) -> Self:
        super().__enter__()
        self._block.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: "TracebackType | None"
    ) -> bool:
        try:
            return super().__exit__(kind, error, at)
        finally:
            self._block.end(error)


class TracedAsyncTuple(AsyncTuple):
    """As `TracedTuple`, of an `AsyncAcker`."""

    __slots__ = ("_block",)

    def __init__(self, spans: RootSpans, headers: "Headers", **fields: Any) -> None:
        super().__init__(**fields)
        self._block = _TracedBlock(spans, self, headers)

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Return the header of a child, and those of the current span."""
        return with_span(super().headers(key), None)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._block.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: "TracebackType | None"
    ) -> bool:
        try:
            return await super().__aexit__(kind, error, at)
        finally:
            self._block.end(error)


def _describe(span: Span, tup: "BaseTuple") -> None:
    """Say which tuple a span processes; a span of many tuples lists their roots."""
    attributes = getattr(span, "attributes", None) or {}
    roots = dict.fromkeys(
        (*attributes.get("acker.root_ids", ()), *(format_id(each.root_id) for each in tup.anchors.anchors))
    )
    span.set_attributes(
        {
            "acker.topology": tup.topology,
            "acker.component": tup.component,
            "acker.root_ids": tuple(roots)[:MAX_ROOT_IDS],
        }
    )
