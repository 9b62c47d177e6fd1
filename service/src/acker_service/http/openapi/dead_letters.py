"""Describes the endpoints of the dead letters."""

from acker_service.http.openapi.completions import TOLD, cursor_of
from acker_service.http.openapi.described import Described, found
from acker_service.http.openapi.shapes import Json, all_of, count, opened, ref
from acker_service.topologies.cursors import ListKind

SCHEMAS: dict[str, Json] = {
    "DeadLetter": {
        "allOf": [
            ref("Completion"),
            opened(
                {
                    "attempts": count("How often it was tried."),
                    "error": {"type": "string", "description": "What went wrong last."},
                    "at_ms": count("When it was given up, in Unix milliseconds."),
                },
                *("attempts", "error", "at_ms"),
            ),
        ],
        "description": "A completion that no try to deliver succeeded for.",
    }
}

_CURSOR = cursor_of(ListKind.DEAD_LETTERS)
_LETTER = TOLD[0] | {"attempts": 11, "error": "answered 500", "at_ms": 1_790_100_000_000}

DESCRIBED = {
    "list_dead_letters": Described(
        summary="List dead letters",
        notes="Oldest first within a shard, those after the cursor. They stay until they are replayed or discarded.",
        answers=(
            found(
                all_of({"dead_letters": {"type": "array", "items": ref("DeadLetter")}, "cursor": ref("Cursor")}),
                "Dead letters, and the cursor behind them.",
                one={"dead_letters": [_LETTER], "cursor": _CURSOR},
                none={"dead_letters": [], "cursor": _CURSOR},
            ),
        ),
    ),
    "replay_dead_letters": Described(
        summary="Replay dead letters",
        notes="Puts all of them back among the completions, to be delivered as if they had never been tried.",
        answers=(found(all_of({"replayed": count("How many.")}), "They are back.", two={"replayed": 2}),),
    ),
    "discard_dead_letters": Described(
        summary="Discard dead letters",
        notes="Throws all of them away.",
        answers=(found(all_of({"discarded": count("How many.")}), "They are gone.", two={"discarded": 2}),),
    ),
}
