"""All rows, the ackers that they are asked of, and what these have done before."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acker_service.http.keys import digest_of

from tests.integration.operations.operation_requests import addresses, bodies, heads, outcomes
from tests.integration.operations.operation_requests.heads import MOST_BYTES, MOST_OPERATIONS
from tests.integration.operations.operation_requests.writing import ack, delete, done, init, put
from tests.support.asking import ADMIN, Document, Step

ROWS = [*addresses.ROWS, *heads.ROWS, *bodies.ROWS, *outcomes.ROWS]

LIMITS = {"max_body_bytes": MOST_BYTES, "max_batch": MOST_OPERATIONS}
ACKERS: dict[str, dict[str, Any]] = {
    "open": LIMITS,
    "keyed": LIMITS,
    "narrow": {"max_in_flight": 1, "max_early": 1, "mailbox_max": 1},
    "hasty": {"body_timeout_s": 2.5},
}
"""The settings of the ackers, which share a store and have no worker; `KEYED` requires keys, and no other."""
KEYED = "keyed"
BESIDE = {"open": "keyed", "keyed": "open", "narrow": "open", "hasty": "open"}
"""Which acker does what another one has to find out."""

KEYS = {
    "ack": ("ack", "*"),
    "spout": ("spout", "*"),
    ADMIN: ("admin", "*"),
    "elsewhere": ("admin", ["orders", "other"]),
}
"""The scope and the topologies of each key."""

SET_UP: dict[str, Sequence[Step]] = {
    "open": [
        put("default", dedupe_window_ms=0),
        put("orders"),
        put("deduped", dedupe_window_ms=60_000),
        *(put("capped", max_spout_pending=1), done(init(), topology="capped")),
        put("untracked", ackers=0),
        put("one", ackers=1),
        put("traced", trace=1),
        *(put("draining"), done(init(), topology="draining"), delete("draining", "?force=true")),
        *(put("gone"), delete("gone")),
        done(init(), ack()),
    ],
    "keyed": [done(init(), ack())],
    "narrow": [
        *(put("crowded", ackers=1), done(ack(), topology="crowded")),
        *(put("stuffed"), done(init(), ack(), topology="stuffed")),
    ],
    "hasty": [],
}

ANSWERS = Path(__file__).with_name("answers.json")
DOCUMENT = Path(__file__).with_name("openapi.json")


def write_keys(folder: Path) -> Path:
    """Write the file of keys; each is called as its secret is."""
    path = folder / "keys.json"
    entries = [
        {"name": name, "sha256": digest_of(name).hex(), "scope": scope, "topologies": topologies}
        for name, (scope, topologies) in KEYS.items()
    ]
    path.write_text(json.dumps({"keys": entries}))
    return path


def read_answers() -> dict[str, Document]:
    """Read what the rows were answered."""
    return dict(json.loads(ANSWERS.read_text()))
