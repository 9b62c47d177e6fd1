"""A bolt, a spout's reader or both, as a process of its own: reads its work from the command line, sends spans by OTLP.

otel_bolt.py ACKER TOPOLOGY ENDPOINT bolt HEADERS [die]  receives a message; `die` kills it in its block
otel_bolt.py ACKER TOPOLOGY ENDPOINT read SPOUT          reads a completion of a shared spout task
"""

import json
import os
import signal
import sys

from acker_client import Acker
from acker_client.integrations.opentelemetry import instrument
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


def main(url: str, topology: str, endpoint: str, work: str, what: str, *more: str) -> None:
    """Do the work."""
    provider = TracerProvider(resource=Resource.create({"service.name": work}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint)))
    with Acker(url, topology) as acker:
        instrument(acker, tracer_provider=provider)
        if work == "bolt":
            with acker.receive(json.loads(what), component="count"):
                if more:
                    os.kill(os.getpid(), signal.SIGKILL)
        else:
            seen: list[object] = []
            acker.shared_spout(what).listen(on_ack=seen.append, until=60, stop=lambda: bool(seen))
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
