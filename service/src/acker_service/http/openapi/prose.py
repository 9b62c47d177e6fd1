"""The introduction of the document and the descriptions of its tags."""

from acker_protocol.errors import MEDIA_TYPE

from acker_service.http.openapi.shapes import Json

ABOUT = f"""\
The acker says when everything that grew out of a message is done: Apache Storm's acker as a service.

A **spout task** emits a **root** (`init`) and names the **edges** to its first tuples. Whoever processes a tuple \
names its edge and those to its children when it is done (`ack`), or says that it failed (`fail`). When the XOR of \
all edges of a root is zero, its tree is done: the spout task is told a **completion** - `acked`, `failed` or \
`timed_out` - which it reads and releases.

- **Ids** and ack vals are strings of 16 lowercase hex digits; a JSON number is refused. Draw them from 64 random \
bits.
- **Durations** end in `_ms`, times in `_at_ms` or `at_ms` (Unix, milliseconds).
- **In a request** null is the same as left out unless something else is said, and an unknown field is `invalid`, \
like an unknown parameter of the query. **In an answer** fields may be added: read over those that you do not know.
- **Keys**: where the acker has keys, send `Authorization: Bearer <key>`. A key is for some topologies and one scope: \
`ack` (ack, fail, reset timeouts, read a topology and its roots), `spout` (that, and init, spout tasks, completions) \
or `admin` (everything). Each endpoint says which it needs. An acker without keys asks nobody.
- **Problems** are `{MEDIA_TYPE}` (RFC 9457). Programs look at `code`; `retryable` says whether the same request may \
be sent again and may help, `Retry-After` and `retry_after_ms` when. Any address may be answered 400 (what came is no \
HTTP), 404 `not_found`, 405 `method_not_allowed` and 431 (a head that is too large).
- **Bodies** are `application/json`, of known length or chunked. Operations have at most 4 MiB if nothing else was \
set, packed and unpacked; all other bodies at most 64 KiB.
"""

TAGS: list[Json] = [
    {"name": "topologies", "description": "What is configured together, and counted together."},
    {"name": "spout tasks", "description": "Who emits roots and is told how they end: one reader each."},
    {"name": "operations", "description": "What is told about roots: one by one, or better in batches."},
    {"name": "roots", "description": "How a root stands."},
    {"name": "completions", "description": "How roots ended, for their spout task."},
    {"name": "health", "description": "For who watches the process, or writes a client. None of these asks for a key."},
]
