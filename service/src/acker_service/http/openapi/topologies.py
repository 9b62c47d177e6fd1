"""Describes the endpoints of the topologies."""

from acker_protocol.errors import AckersFixed, StoreFull, TopologyBusy
from acker_protocol.wire import fields

from acker_service.http.openapi.described import Answer, Body, Content, Described, found
from acker_service.http.openapi.shapes import Json, all_of, closed, count, integer, or_null, ref, zero_or
from acker_service.topologies.config import MAX_SPOUT_PENDING
from acker_service.topologies.stats import TOTALS

_TIMEOUT = integer(fields.TIMEOUT_MS)
_PUT: Json = {
    "ackers": or_null(
        integer(fields.ACKERS),
        "How many ackers (shards) its roots are spread over; fixed when it is made. 0: nothing is tracked, every init "
        "is acked at once.",
    ),
    "message_timeout_ms": or_null(_TIMEOUT, "How long a tree may take until its root is `timed_out`."),
    "progress_timeout_ms": zero_or(_TIMEOUT, "How long a tree may go without any ack; 0 or null: any time."),
    "max_spout_pending": or_null(
        integer(MAX_SPOUT_PENDING), "How many roots of a spout task may be pending at once; null: any number."
    ),
    "dedupe_window_ms": zero_or(
        _TIMEOUT,
        "How long an acked edge is remembered, so that a second ack of it has no effect; 0: not at all. At least "
        "`message_timeout_ms`, if not 0.",
    ),
    "retention_ms": or_null(integer(fields.RETENTION_MS), "How long the outcome of a finished root is remembered."),
}
_SHOWN: Json = {
    "topology": ref("Name"),
    "ackers": integer(fields.ACKERS),
    "message_timeout_ms": _TIMEOUT,
    "progress_timeout_ms": zero_or(_TIMEOUT, "Null or 0: any time."),
    "max_spout_pending": or_null(integer(MAX_SPOUT_PENDING)),
    "dedupe_window_ms": {"anyOf": [_TIMEOUT, {"const": 0}]},
    "retention_ms": integer(fields.RETENTION_MS),
    "idempotency_window_ms": count("How long a request with an `Idempotency-Key` is remembered at least."),
    "pending": count("Pending roots."),
    "unread": count("Completions that were not released yet."),
    "counts": all_of(
        {name: {"type": "integer", "minimum": 0} for name in TOTALS},
        description="Since it was made: roots by outcome; `dropped`: early roots that no init came for; `unbalanced`: "
        "how often an ack val was zero with edges outstanding, which tells of ids that are not random.",
    ),
}
SCHEMAS: dict[str, Json] = {
    "TopologyChange": closed(_PUT, description="What is left out keeps its value; null is the default."),
    "Topology": all_of(_SHOWN),
}

_EXAMPLE = {
    "topology": "orders",
    "ackers": 4,
    "message_timeout_ms": 30_000,
    "progress_timeout_ms": None,
    "max_spout_pending": 10_000,
    "dedupe_window_ms": 0,
    "retention_ms": 60_000,
    "idempotency_window_ms": 600_000,
    "pending": 17,
    "unread": 2,
    "counts": {"acked": 104_233, "failed": 12, "timed_out": 3, "dropped": 0, "unbalanced": 0},
}
_CHANGES = {
    "as it is by default": {},
    "with a cap": {"ackers": 4, "message_timeout_ms": 30_000, "max_spout_pending": 10_000},
    "deduping": {"dedupe_window_ms": 60_000, "progress_timeout_ms": 0, "max_spout_pending": None},
}
_TOPOLOGY = Content(schema=ref("Topology"), examples={"topology": _EXAMPLE})

DESCRIBED = {
    "list_topologies": Described(
        summary="List topologies",
        answers=(
            found(
                all_of({"topologies": {"type": "array", "items": ref("Topology")}}),
                "The topologies that the key is for.",
                topologies={"topologies": [_EXAMPLE]},
            ),
        ),
    ),
    "get_topology": Described(
        summary="Give a topology",
        answers=(found(ref("Topology"), "The topology.", topology=_EXAMPLE),),
    ),
    "put_topology": Described(
        summary="Make or change a topology",
        notes="Safe to repeat. The topology `default` always exists. For another number of ackers make a new "
        "topology, move the spouts to it and let the old one drain.",
        body=Body(contents=(Content(schema=ref("TopologyChange"), examples=_CHANGES),), required=False),
        answers=(
            Answer(status=200, description="The topology was there, and is now so.", contents=(_TOPOLOGY,)),
            Answer(status=201, description="The topology was made.", contents=(_TOPOLOGY,)),
        ),
        problems=(AckersFixed, TopologyBusy, StoreFull),
    ),
    "delete_topology": Described(
        summary="Delete a topology",
        notes="Without `force` only while no root is pending and no completion unread. With `force=true` it takes no "
        "more inits, what is pending ends as `failed` with the reason `topology deleted`, and it goes when all "
        "completions were released. With `discard=true` besides it goes at once, and what was not read is lost.",
        answers=(
            Answer(status=202, description="It will go when its completions were released."),
            Answer(status=204, description="It is gone."),
        ),
        problems=(TopologyBusy,),
    ),
}
