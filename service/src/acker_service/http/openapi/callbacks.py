"""Describes callbacks, their endpoints, and the posts to a webhook."""

from acker_protocol.errors import SpoutBusy
from acker_protocol.signature import COMPLETION_BATCH, ID, SIGNATURE, TIMESTAMP

from acker_service.http.openapi.described import Described, found
from acker_service.http.openapi.shapes import Json, all_of, closed, opened, or_null, ref
from acker_service.topologies.callback import URL_CHARACTERS, CallbackStatus

EXAMPLE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="  # noqa: S105 - of no webhook

_URL: Json = {"type": "string", "pattern": "^https?://[!-~]+$", "maxLength": URL_CHARACTERS}
_SECRET: Json = {
    "type": "string",
    "pattern": "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$",
    "description": "`whsec_` and the base64 of 24 to 64 random bytes. Left out: the present one stays, or one is made.",
}
_STATE: Json = {
    "enum": [state.value for state in CallbackStatus],
    "description": "`paused`: nothing was delivered for a day. `off`: the receiver answered 410. Resume it by a call.",
}

SCHEMAS: dict[str, Json] = {
    "CallbackChange": {"oneOf": [ref("WebhookChange"), ref("PubSubChange")]},
    "WebhookChange": closed(
        {"kind": {"const": "webhook"}, "url": _URL, "secret": or_null(_SECRET)},
        *("kind", "url"),
        description="Completions are posted to the URL, signed by Standard Webhooks.",
    ),
    "PubSubChange": closed({"kind": {"const": "pubsub"}}, "kind", description="Completions are published in Redis."),
    "Callback": opened(
        {
            "kind": {"enum": ["webhook", "pubsub"]},
            "url": _URL,
            "state": _STATE,
            "error": {"type": "string", "description": "What went wrong last, where it is paused or off."},
            "secret": _SECRET | {"description": "Shown once, in the answer to the request that it was made for."},
        },
        *("kind", "state"),
        description="Where completions are delivered to.",
    ),
    "CompletionBatch": all_of(
        {
            "type": {"const": COMPLETION_BATCH},
            "timestamp": {"type": "string", "format": "date-time", "description": "When the youngest of them ended."},
            "data": all_of(
                {
                    "topology": ref("Name"),
                    "spout_task": ref("Name"),
                    "completions": {"type": "array", "items": ref("Completion"), "minItems": 1},
                }
            ),
        },
        description="What is posted to a webhook.",
    ),
    "Retry": opened(
        {"retry": {"type": "array", "items": {"type": "string"}, "description": "Ids of completions to post again."}},
        description="What a receiver may answer; without the list, or with nothing, all is done.",
    ),
}

_HEADERS = {
    ID: "The same for the same completions, however often they are posted.",
    TIMESTAMP: "When this post was signed, in Unix seconds.",
    SIGNATURE: "`v1,` and the base64 of the HMAC-SHA256 over `id.timestamp.body`; one a secret, space separated.",
}
_JSON = "application/json"
WEBHOOKS: Json = {
    "completions": {
        "post": {
            "operationId": "receive_completions",
            "summary": "Completions for a spout task with a webhook",
            "description": "Posted by the acker to the URL of the webhook, at least once each. Keep the ids of "
            "what was dealt with, and pass over doubles.",
            "tags": ["completions"],
            "parameters": [
                {
                    "name": name,
                    "in": "header",
                    "required": True,
                    "schema": {"type": "string"},
                    "description": description,
                }
                for name, description in _HEADERS.items()
            ],
            "requestBody": {"required": True, "content": {_JSON: {"schema": ref("CompletionBatch")}}},
            "responses": {
                "2XX": {
                    "description": "They were taken, but for those that are listed.",
                    "content": {_JSON: {"schema": ref("Retry")}},
                },
                "410": {"description": "There is no such receiver any more: the webhook is switched off."},
                "429": {"description": "Not now; obeys `Retry-After`. So does 503."},
                "default": {"description": "They are posted again, by the schedule, then become dead letters."},
            },
        }
    }
}
"""The requests that the acker itself sends, as OpenAPI webhooks."""

DESCRIBED = {
    "rotate_secret": Described(
        summary="Change the secret of a webhook",
        notes="Makes a new secret, shown in this answer only. For a day posts are signed with the one before it too.",
        answers=(found(all_of({"secret": _SECRET}), "The new secret.", new={"secret": EXAMPLE_SECRET}),),
        problems=(SpoutBusy,),
    ),
    "resume_callback": Described(
        summary="Resume a callback",
        notes="After a pause, or after the receiver answered 410. All that is left is delivered, at once.",
        answers=(found(all_of({"state": _STATE}), "It is on.", on={"state": "on"}),),
        problems=(SpoutBusy,),
    ),
}
