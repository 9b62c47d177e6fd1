"""Cuts /openapi.json into pieces, and says which of them differ from those recorded."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tests.support.asking import Document

Pieces = dict[str, str]

_WINDOWS = "a dedupe window may be automatic, and that of the topology default is"
_SECRETS = "the base64 of a webhook's secret has its padding"
_REASONS = "a root that timed out has a reason and a component where the acker knows them"
_EARLY_BYTES = "early roots are bounded in bytes, too"
_RATE = "a key may have a rate: each operation that needs a key refers to this answer"
_LIVE = "streams of live events have a bound of their own"
_STREAMS = "an error that ends a stream is its last event"
_STATES = "the states of many roots are read in one request"
_FAILURES = "a root may end when all of its edges have ended, some of them failed"
_DROPPED = "a completion counts the tuples that were dropped"
_ACTS = "the topologies share what is kept of the audit trail"
_GRACE = "roots that were due in an outage may get grace"
_REMEMBERED = "what a topology remembers is bounded"
_TREE = "the tree of a root tells when each edge was sent, and when it ended and by what"
_FILTERS = "lists are filtered by text, failures by reason and time too, and a page ends after about a second"
_SAMPLES = "pending roots are counted by age, and traced ones tell how long components take"
_LINKS = "message ids have a link to a system of the operator's"
_PERCENTILE = "the history has a 95th percentile"
CHANGED: Pieces = {
    "info": "HEAD is answered wherever GET is; a body that is not required may be left out; origins of web pages",
    "responses/403.forbidden_origin": "web pages of other origins are refused where no keys are configured",
    "GET /v1/topologies": f"{_WINDOWS}; {_FAILURES}; {_GRACE}; {_REMEMBERED}",
    "GET /v1/topologies/{topology}": f"{_WINDOWS}; {_FAILURES}; {_GRACE}; {_REMEMBERED}",
    "PUT /v1/topologies/{topology}": f"{_WINDOWS}; {_FAILURES}; {_GRACE}; {_REMEMBERED}",
    "schemas/Init": f"{_WINDOWS}; {_FAILURES}",
    "schemas/InitInBatch": f"{_WINDOWS}; {_FAILURES}",
    "schemas/Topology": f"{_WINDOWS}; {_FAILURES}; {_GRACE}; {_REMEMBERED}",
    "schemas/TopologyChange": f"{_WINDOWS}; {_FAILURES}; {_GRACE}",
    "POST /v1/topologies/{topology}/spouts/{spout_task}/secret/rotate": _SECRETS,
    "schemas/Callback": _SECRETS,
    "schemas/WebhookChange": _SECRETS,
    "schemas/Completion": f"{_REASONS}; a timeout tells where its root hung; {_FAILURES}; {_DROPPED}",
    "schemas/Ack": f"{_FAILURES}; {_DROPPED}",
    "schemas/AckInBatch": f"{_FAILURES}; {_DROPPED}",
    "schemas/Failure": f"{_REASONS}; {_FAILURES}",
    "schemas/FinishedRoot": f"{_REASONS}; {_FAILURES}",
    "GET /v1/events": f"{_EARLY_BYTES}; {_STREAMS}; {_LIVE}; {_REMEMBERED}",
    "GET /v1/topologies/{topology}/spouts/{spout_task}/completions": _STREAMS,
    "GET /v1/status": f"{_EARLY_BYTES}; {_REMEMBERED}",
    "GET /v1/audit": _ACTS,
    "POST /v1/topologies/{topology}/roots/states": _STATES,
    "schemas/RootIds": _STATES,
    "schemas/StateOfRoot": _STATES,
    **dict.fromkeys(
        (
            "POST /v1/topologies/{topology}/fail",
            "POST /v1/topologies/{topology}/batch",
            "schemas/EndOn",
            "schemas/Fail",
            "schemas/FailInBatch",
            "schemas/AckAnswer",
            "schemas/FailAnswer",
            "schemas/EarlyRoot",
            "schemas/PendingRoot",
        ),
        _FAILURES,
    ),
    "schemas/RootTree": f"{_FAILURES}; {_TREE}",
    "schemas/TreeEdge": _TREE,
    "GET /v1/topologies/{topology}/roots/{root_id}/tree": _TREE,
    "GET /v1/topologies/{topology}/failures": _FILTERS,
    "GET /v1/topologies/{topology}/roots": _FILTERS,
    "GET /v1/topologies/{topology}/spouts/{spout_task}/dead-letters": _FILTERS,
    "GET /v1/topologies/{topology}/ages": _SAMPLES,
    "GET /v1/topologies/{topology}/components": _SAMPLES,
    "schemas/AgeGroup": _SAMPLES,
    "schemas/ComponentTimes": _SAMPLES,
    "GET /v1/links": _LINKS,
    "GET /v1/topologies/{topology}/history": _PERCENTILE,
    "schemas/Point": _PERCENTILE,
    "schemas/Store": f"{_EARLY_BYTES}; {_REMEMBERED}",
    "responses/503.overloaded.store_full.store_unavailable": _REMEMBERED,
    "responses/429.overloaded": _RATE,
    "responses/429.mailbox_full.max_spout_pending.overloaded": _RATE,
}
"""The pieces that are not those of commit 7da1270, and why."""


def pieces(document: Document) -> Pieces:
    """Return the digest of each piece: each operation, what operations refer to, and each member beside these."""
    return {name: hashlib.sha256(_canonical(piece)).hexdigest()[:16] for name, piece in _cut(document)}


def written(without_keys: Document, with_keys: Document) -> str:
    """Write the pieces of the document of an acker without keys, and those that differ in that of one with keys."""
    one, other = pieces(without_keys), pieces(with_keys)
    differing = {name: digest for name, digest in other.items() if one.get(name) != digest}
    return json.dumps({"without keys": one, "with keys": differing}, indent=1) + "\n"


def _cut(document: Document) -> Iterator[tuple[str, Any]]:
    for path, item in document["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in item.items())
    for kind, components in document["components"].items():
        yield from ((f"{kind}/{name}", component) for name, component in components.items())
    yield from ((name, document[name]) for name in document if name not in ("paths", "components"))


def _canonical(piece: Any) -> bytes:
    return json.dumps(piece, sort_keys=True).encode()
