"""Describes the endpoints of the spout tasks."""

from acker_protocol.errors import SpoutBusy, StoreFull, TooManySpouts, UnknownSpout

from acker_service.http.openapi.callbacks import EXAMPLE_SECRET
from acker_service.http.openapi.described import Answer, Body, Content, Described, found
from acker_service.http.openapi.shapes import Json, all_of, closed, count, or_null, ref

_EPHEMERAL = "Whether it is removed when nobody has used it for long and none of its roots is pending."
SCHEMAS: dict[str, Json] = {
    "SpoutTaskChange": closed(
        {
            "callback": or_null(ref("CallbackChange"), "Null: its completions are pulled."),
            "ephemeral": or_null({"type": "boolean"}, f"{_EPHEMERAL} Null: no."),
        },
        description="What is left out keeps its value.",
    ),
    "SpoutTask": all_of(
        {
            "spout_task": ref("Name"),
            "callback": or_null(ref("Callback"), "Null: its completions are pulled."),
            "ephemeral": {"type": "boolean", "description": _EPHEMERAL},
            "pending": count("Its pending roots."),
            "unread": count("Its completions that were not released yet."),
            "dead_letters": count("Its completions that could not be delivered."),
        }
    ),
}

_EXAMPLE = {
    "spout_task": "orders-1",
    "callback": None,
    "ephemeral": True,
    "pending": 17,
    "unread": 2,
    "dead_letters": 0,
}
_WEBHOOK = {"kind": "webhook", "url": "https://orders.example/acker"}
_DELIVERED = _EXAMPLE | {"callback": _WEBHOOK | {"state": "on"}, "ephemeral": False}
_MADE = _EXAMPLE | {"callback": _WEBHOOK | {"state": "on", "secret": EXAMPLE_SECRET}, "ephemeral": False}
_SPOUT = Content(
    schema=ref("SpoutTask"),
    examples={"pulled": _EXAMPLE, "delivered": _DELIVERED, "with a secret that was made": _MADE},
)

DESCRIBED = {
    "list_spouts": Described(
        summary="List spout tasks",
        answers=(
            found(
                all_of({"spouts": {"type": "array", "items": ref("SpoutTask")}}),
                "The spout tasks of the topology, by name.",
                spouts={"spouts": [_EXAMPLE]},
            ),
        ),
    ),
    "get_spout": Described(
        summary="Give a spout task",
        answers=(found(ref("SpoutTask"), "The spout task.", spout=_EXAMPLE),),
    ),
    "put_spout": Described(
        summary="Make or change a spout task",
        notes="Safe to repeat, and seldom needed: an init that names a new spout task makes it. Completions go to the "
        "spout task under whose name the root was emitted. A process that reads its own completions takes a name of "
        "its own and says `ephemeral`. A webhook without a secret keeps the present one; if there is none, one is made "
        "and shown in this answer only.",
        body=Body(
            contents=(
                Content(
                    schema=ref("SpoutTaskChange"),
                    examples={
                        "pulled": {"callback": None},
                        "of one process": {"ephemeral": True},
                        "a webhook": {"callback": _WEBHOOK},
                    },
                ),
            ),
            required=False,
        ),
        answers=(
            Answer(status=200, description="The spout task was there, and is now so.", contents=(_SPOUT,)),
            Answer(status=201, description="The spout task was made.", contents=(_SPOUT,)),
        ),
        problems=(StoreFull, SpoutBusy, TooManySpouts, UnknownSpout),
    ),
    "delete_spout": Described(
        summary="Delete a spout task",
        notes="Only while none of its roots is pending and no completion is unread. `discard=true` deletes it all the "
        "same, and what was not read is lost; it needs the scope `admin`.",
        answers=(Answer(status=204, description="It is gone."),),
        problems=(SpoutBusy,),
    ),
}
