"""Makes keys that are called as their scopes are."""

import json
from pathlib import Path
from typing import Any

from acker_service.http.keys import digest_of

SCOPES = ("ack", "spout", "admin")


def keys_file(folder: Path, *scopes: str, topologies: Any = "*") -> Path:
    """A file with a key of each scope, which is called as its scope is."""
    path = folder / "keys.json"
    entries = [{"name": s, "sha256": digest_of(s).hex(), "scope": s, "topologies": topologies} for s in scopes]
    path.write_text(json.dumps({"keys": entries}))
    return path


def bearer(secret: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"Authorization": f"Bearer {secret}"}
