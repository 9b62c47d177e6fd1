"""Describes the endpoints of the spout tasks."""

from acker_protocol.problems import SpoutBusy, StoreFull

from acker_service.api.openapi.described import Answer, Body, Content, Described, found
from acker_service.api.openapi.shapes import NULL, Json, all_of, closed, count, or_null, ref

_EPHEMERAL = "Whether it is removed when nobody has used it for long and none of its roots is pending."
_CALLBACK = "Null: its completions are pulled."
SCHEMAS: dict[str, Json] = {
    "SpoutTaskChange": closed(
        {
            "callback": NULL | {"description": _CALLBACK},
            "ephemeral": or_null({"type": "boolean"}, f"{_EPHEMERAL} Null: no."),
        },
        description="What is left out keeps its value.",
    ),
    "SpoutTask": all_of(
        {
            "spout_task": ref("Name"),
            "callback": NULL | {"description": _CALLBACK},
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
_SPOUT = Content(schema=ref("SpoutTask"), examples={"spout task": _EXAMPLE})

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
        "its own and says `ephemeral`.",
        body=Body(
            contents=(
                Content(
                    schema=ref("SpoutTaskChange"),
                    examples={"pulled": {"callback": None}, "of one process": {"ephemeral": True}},
                ),
            ),
            required=False,
        ),
        answers=(
            Answer(status=200, description="The spout task was there, and is now so.", contents=(_SPOUT,)),
            Answer(status=201, description="The spout task was made.", contents=(_SPOUT,)),
        ),
        problems=(StoreFull,),
    ),
    "delete_spout": Described(
        summary="Delete a spout task",
        notes="Only while none of its roots is pending and no completion is unread. `discard=true` deletes it all the "
        "same, and what was not read is lost; it needs the scope `admin`.",
        answers=(Answer(status=204, description="It is gone."),),
        problems=(SpoutBusy,),
    ),
}
