"""Knows the file of keys: how it is read, when it has changed, what an entry looks like."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from acker_service.http.access import Key, Scope, digest_of

LOOK_S = 1.0
"""How often the file is looked at."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Keys = tuple[Key, ...]

_log = logging.getLogger(__name__)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    sha256: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    scope: Literal["ack", "spout", "admin"]
    topologies: Literal["*"] | Annotated[list[Name], Field(min_length=1)]

    def key(self) -> Key:
        topologies = None if self.topologies == "*" else frozenset(self.topologies)
        return Key(name=self.name, digest=bytes.fromhex(self.sha256), scope=Scope(self.scope), topologies=topologies)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    keys: list[_Entry]


class KeysFile:
    """A file of keys that may change while it is used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: object = None

    def read(self) -> Keys:
        """Read the keys. Raises ``ValueError`` that names the file and all its faults."""
        self._seen = self._signature()
        try:
            return parse_keys(self.path.read_bytes())
        except OSError as fault:
            raise ValueError(f"{self.path}: {fault.strerror}") from None
        except ValueError as fault:
            raise ValueError(f"{self.path}: {fault}") from None

    def look(self, take: Callable[[Keys], None]) -> None:
        """Hand over the keys if the file has changed; one that cannot be read is told in the log, once."""
        if self._signature() == self._seen:
            return
        try:
            keys = self.read()
        except ValueError as fault:
            _log.error("the keys stay as they are: %s", fault)
        else:
            take(keys)
            _log.info("%d keys read from %s", len(keys), self.path)

    async def keep(self, take: Callable[[Keys], None]) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(take)

    def _signature(self) -> object:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def configured_keys(path: Path | None) -> Keys | None:
    """Read the keys of a file; None: no file is configured, so no key is asked for. Raises ``ValueError``."""
    return None if path is None else KeysFile(path).read()


def parse_keys(text: bytes) -> Keys:
    """Read the keys out of the text of a file. Raises ``ValueError`` with all faults, none of which shows a value."""
    try:
        keys = tuple(entry.key() for entry in _Document.model_validate_json(text).keys)
    except ValidationError as fault:
        raise ValueError("; ".join(_told(error) for error in fault.errors())) from None
    _check_unique("name", [key.name for key in keys], [key.name for key in keys])
    _check_unique("sha256", [key.digest for key in keys], [key.name for key in keys])
    return keys


def entry(name: str, secret: str, *, scope: str, topologies: list[str]) -> str:
    """Write the entry of a key, one line of JSON; no topologies are all. Raises ``ValueError``."""
    fields = {"name": name, "sha256": digest_of(secret).hex(), "scope": scope, "topologies": topologies or "*"}
    parse_keys(json.dumps({"keys": [fields]}).encode())
    return json.dumps(fields)


def _check_unique(field: str, values: list[Any], names: list[str]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"keys.{index}.{field}: {names[index]} has the {field} of another key")


def _told(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])
