"""Derives the problems of an endpoint: its own, and those that follow from its path and body."""

from collections.abc import Iterator

from acker_protocol.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    Overloaded,
    ServiceError,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
    UnknownSpout,
    UnknownTopology,
    UnsupportedMediaType,
)

from acker_service.http.load_shedding import UNLIMITED_PATHS
from acker_service.http.openapi.described import Described
from acker_service.http.openapi.shapes import Json

_CREATES_A_SPOUT_TASK = "put_spout"


def causes(path: str, operation: Json, described: Described) -> Iterator[type[ServiceError]]:
    """Give the error classes of an endpoint, some more than once."""
    yield ServiceError
    yield from described.problems
    if path not in UNLIMITED_PATHS:
        yield Overloaded
    if "security" in operation:
        yield from (Unauthorized, Forbidden, InvalidRequest, StoreUnavailable)
    if "{topology}" in path:
        yield from (NotFound, UnknownTopology)
    if "{spout_task}" in path and operation["operationId"] != _CREATES_A_SPOUT_TASK:
        yield UnknownSpout
    if described.body:
        yield from (TooLarge, UnsupportedMediaType)
