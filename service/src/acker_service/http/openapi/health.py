"""Describes the probes, the metrics and the document itself."""

from acker_service.http.openapi.described import Answer, Content, Described, found
from acker_service.http.openapi.shapes import Json, all_of

SCHEMAS: dict[str, Json] = {}


_SAMPLE = 'acker_operations_total{operation="init",state="pending",topology="orders"} 42.0\n'


def _status(*words: str) -> Json:
    return all_of({"status": {"enum": list(words)}})


DESCRIBED = {
    "livez": Described(
        summary="Say whether the process runs",
        answers=(found(_status("alive"), "It runs.", alive={"status": "alive"}),),
    ),
    "readyz": Described(
        summary="Say whether the process takes work",
        notes="It does while Redis takes a write, as the durability demands; that is tried once a second at most.",
        answers=(
            found(
                all_of(
                    {
                        "status": {"const": "ready"},
                        "ticking": {
                            "type": "boolean",
                            "description": "Whether some worker lets time pass; without one nothing times out.",
                        },
                    }
                ),
                "It takes work.",
                ready={"status": "ready", "ticking": True},
            ),
            Answer(
                status=503,
                description="It takes none now.",
                contents=(
                    Content(
                        schema=_status("stopping", "store unavailable"),
                        examples={"stopping": {"status": "stopping"}, "no store": {"status": "store unavailable"}},
                    ),
                ),
            ),
        ),
    ),
    "metrics": Described(
        summary="Tell all metrics",
        notes="In Prometheus's text format, or in OpenMetrics to whoever prefers that (`Accept`).",
        answers=(
            Answer(
                status=200,
                description="Metrics; where Redis is away, those that are read from it are missing.",
                contents=(
                    Content(schema={"type": "string"}, examples={"a sample": _SAMPLE}, kind="text/plain"),
                    Content(schema={"type": "string"}, kind="application/openmetrics-text"),
                ),
            ),
        ),
    ),
    "openapi": Described(
        summary="Give this document",
        answers=(
            found(
                all_of(
                    {"openapi": {"type": "string", "pattern": "^3\\.1\\."}, "paths": {"type": "object"}},
                    additionalProperties=True,
                ),
                "The document, in OpenAPI 3.1.",
                begun={"openapi": "3.1.0", "info": {"title": "Acker", "version": "0.1.0"}, "paths": {}},
            ),
        ),
    ),
}
