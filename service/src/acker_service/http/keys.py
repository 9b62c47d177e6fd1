"""API keys: scopes, authentication, and the file that holds them."""

import codecs
import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from acker_protocol.errors import Forbidden, Unauthorized
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from acker_service.file_changes import fingerprint, watch

_log = logging.getLogger(__name__)


class Scope(StrEnum):
    """What a key may do. Each scope includes those before it."""

    ACK = "ack"
    SPOUT = "spout"
    ADMIN = "admin"

    def includes(self, need: "Scope") -> bool:
        """Whether a key of this scope may do what requires ``need``."""
        return _RANKS[self] >= _RANKS[need]


_RANKS = {scope: rank for rank, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many requests and operations a second; None: as many as come."""

    requests: float | None = None
    operations: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A configured key; only its SHA-256 is kept. ``topologies`` None: all of them; ``rate`` None: without a limit."""

    name: str
    digest: bytes = field(repr=False)
    scope: Scope
    topologies: frozenset[str] | None = None
    rate: Rate | None = None

    def allows(self, topology: str) -> bool:
        """Whether the key is valid for this topology."""
        return self.topologies is None or topology in self.topologies


Keys = tuple[Key, ...]

ANONYMOUS_ADMIN = Key(name="anybody", digest=b"", scope=Scope.ADMIN)
"""The key of every request where no keys are configured."""


def digest_of(secret: str) -> bytes:
    """Hash a key. It needs no salt nor stretching: keys are 256 random bits, not passwords."""
    return hashlib.sha256(secret.encode()).digest()


def authenticate(keys: Sequence[Key] | None, secret: str | None) -> Key:
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


_FIELD = re.compile(r"[A-Za-z_]{1,24}")
"""A field's name that may be shown: letters and underscores only, so no hash and no key."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
Name = Annotated[str, Field(pattern=f"^{_NAME.pattern}$")]
ALL = "*"
"""Stands for all topologies."""

_MARKS = {
    "UTF-8": codecs.BOM_UTF8,
    "UTF-32": codecs.BOM_UTF32_LE,
    "UTF-16": codecs.BOM_UTF16_LE,
    "UTF-16, big-endian": codecs.BOM_UTF16_BE,
}
"""What editors and shells of Windows write at the beginning of a file; UTF-32 begins as UTF-16 does."""


def _check_topologies(value: Any) -> Any:
    """Check the names, or `ALL`. Raises ``PydanticCustomError``, which shows no value."""
    if value == ALL:
        return value
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("topologies", 'Input should be "*" for all topologies, or a list of names')
    if ALL in value:
        raise PydanticCustomError("topologies", '"*" is for all topologies: write "topologies": "*", without a list')
    for index, name in enumerate(value):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PydanticCustomError("topologies", "Entry {index} is no name of a topology", {"index": index})
    return value


PerSecond = Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]


class _Rate(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    requests: PerSecond | None = None
    operations: PerSecond | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.requests is None and self.operations is None:
            raise PydanticCustomError("rate", 'Input should name "requests" or "operations" a second, or both')
        return self


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    sha256: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    scope: Literal["ack", "spout", "admin"]
    topologies: Annotated[str | list[str], PlainValidator(_check_topologies)]
    rate: _Rate | None = None

    def key(self) -> Key:
        return Key(
            name=self.name,
            digest=bytes.fromhex(self.sha256),
            scope=Scope(self.scope),
            topologies=None if self.topologies == ALL else frozenset(self.topologies),
            rate=None if self.rate is None else Rate(**self.rate.model_dump()),
        )


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    keys: list[_Entry]


class KeysFile:
    """A file of keys that may change while it is used.

    ``error`` is why its last change could not be read (None: it could), ``loaded_at_ms`` when it was read last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: str | None = None
        self.loaded_at_ms: int | None = None
        self._seen: object = None

    @property
    def is_valid(self) -> bool:
        """Whether its last change could be read."""
        return self.error is None

    def read(self) -> Keys:
        """Read the keys. Raises ``ValueError`` that names the file and all its errors."""
        self._seen = fingerprint(self.path)
        try:
            keys = parse_keys(self.path.read_bytes())
        except OSError as error:
            raise ValueError(f"{self.path}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        self.error = None
        self.loaded_at_ms = int(time.time() * 1_000)
        return keys

    def reload_if_changed(self, install: Callable[[Keys], None]) -> None:
        """Install the keys if the file has changed; a file that cannot be read is logged once and changes nothing."""
        if fingerprint(self.path) == self._seen:
            return
        try:
            keys = self.read()
        except ValueError as error:
            self.error = str(error)
            _log.error("the keys stay as they are: %s", error)
        else:
            install(keys)
            _log.info("%d keys read from %s", len(keys), self.path)

    async def watch(self, install: Callable[[Keys], None]) -> None:
        """Reload the keys whenever the file changes, until cancelled."""
        await watch(partial(self.reload_if_changed, install), name="the keys file", log=_log)


def configured_keys(path: Path | None) -> Keys | None:
    """Read the keys of a file; None: no file is configured, so no key is required. Raises ``ValueError``."""
    return None if path is None else KeysFile(path).read()


def parse_keys(text: bytes) -> Keys:
    """Read the keys out of the text of a file. Raises ``ValueError`` with all errors; they never show a value."""
    if mark := next((name for name, mark in _MARKS.items() if text.startswith(mark)), None):
        raise ValueError(f"it begins with the byte-order mark of {mark}: save it as UTF-8 without one")
    try:
        keys = tuple(found.key() for found in _Document.model_validate_json(text).keys)
    except ValidationError as error:
        raise ValueError("; ".join(_describe(detail) for detail in error.errors())) from None
    _check_unique("name", [key.name for key in keys])
    _check_unique("sha256", [key.digest for key in keys])
    return keys


def entry(name: str, secret: str, *, scope: str, topologies: list[str], rate: Mapping[str, float] | None = None) -> str:
    """Write the entry of a key as one line of JSON; no ``topologies``: all of them. Raises ``ValueError``."""
    fields: dict[str, Any] = {"name": name, "sha256": digest_of(secret).hex(), "scope": scope}
    fields["topologies"] = topologies or "*"
    if rate:
        fields["rate"] = rate
    parse_keys(json.dumps({"keys": [fields]}).encode())
    return json.dumps(fields)


def _check_unique(field: str, values: list[Any]) -> None:
    for index, value in enumerate(values):
        if (first := values.index(value)) < index:
            raise ValueError(f"keys.{index}.{field}: keys.{first} has the same {field}")


def _describe(error: Any) -> str:
    where = ".".join(_shown(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def _shown(part: int | str) -> str:
    """Return a part of an error's place: broken JSON may make a hash, or a key itself, part of the name of a field."""
    if isinstance(part, int) or part in _Entry.model_fields or _FIELD.fullmatch(part):
        return str(part)
    return "(a name that is not shown)"
