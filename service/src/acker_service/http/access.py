"""Keys, their scopes and their topologies: authentication and authorization."""

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from acker_protocol.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scope(StrEnum):
    """What a key may do. Each scope includes those before it."""

    ACK = "ack"
    SPOUT = "spout"
    ADMIN = "admin"

    def includes(self, need: "Scope") -> bool:
        """Whether a key of this scope may do what requires ``need``."""
        scopes = list(Scope)
        return scopes.index(self) >= scopes.index(need)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A configured key; only its SHA-256 is kept. ``topologies`` None: all of them."""

    name: str
    digest: bytes = field(repr=False)
    scope: Scope
    topologies: frozenset[str] | None = None

    def allows(self, topology: str) -> bool:
        """Whether the key is valid for this topology."""
        return self.topologies is None or topology in self.topologies


ANONYMOUS_ADMIN = Key(name="anybody", digest=b"", scope=Scope.ADMIN)
"""The key of every request where no keys are configured."""


def digest_of(secret: str) -> bytes:
    """Hash a key. It needs no salt nor stretching: keys are 256 random bits, not passwords."""
    return hashlib.sha256(secret.encode()).digest()


def authenticate(keys: "Sequence[Key] | None", secret: str | None) -> Key:
    """Find the configured key that a secret belongs to; ``keys`` None: none are configured. Raises `Unauthorized`.

    Compares every key in constant time, so that the duration reveals nothing about the keys.
    """
    if keys is None:
        return ANONYMOUS_ADMIN
    if not secret:
        raise Unauthorized("this acker asks for a key: send 'Authorization: Bearer <key>'")
    digest, found = digest_of(secret), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    if found is None:
        raise Unauthorized("the key is not known here")
    return found


def authorize(key: Key, need: Scope, topology: str | None) -> None:
    """Check that a key has a scope, and is valid for a topology unless that is None. Raises `Forbidden`."""
    if topology is not None and not key.allows(topology):
        raise Forbidden(f"the key {key.name} is not for the topology {topology}")
    if not key.scope.includes(need):
        raise Forbidden(f"the key {key.name} has scope {key.scope}; this needs {need}")
