"""Receives spans by OTLP over HTTP, as a collector does, with OpenTelemetry's own protobuf messages."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

STATUSES = {Status.STATUS_CODE_UNSET: "unset", Status.STATUS_CODE_OK: "ok", Status.STATUS_CODE_ERROR: "error"}


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    """A span as it arrived; ids in hex, ``parent`` empty for the root of a trace, times in Unix nanoseconds."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent: str
    status: str
    message: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: tuple[str, ...]


class Receiver:
    """What arrived so far, at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[ReceivedSpan] = []

    def named(self, name: str) -> list[ReceivedSpan]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def add(self, body: bytes) -> None:
        """Read a request."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                (one.value.string_value for one in resource.resource.attributes if one.key == "service.name"), ""
            )
            self.spans += [_read(span, service) for scope in resource.scope_spans for span in scope.spans]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port of this host."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.add(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/v1/traces")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def _read(span: Span, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        service=service,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        status=STATUSES[span.status.code],
        message=span.status.message,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes={one.key: _value(one.value) for one in span.attributes},
        links=tuple(link.span_id.hex() for link in span.links),
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found
