"""Asks whoever comes in for a key. Every route declares with `needs` which scope it takes."""

from collections.abc import Iterable, Sequence
from typing import Any

from acker_protocol.operations import Init
from fastapi import FastAPI, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from acker_service.http.access import Key, Scope, authenticate, authorize
from acker_service.operations.column_batch import Operations, contains


def install(app: FastAPI, keys: Sequence[Key] | None) -> None:
    """Ask for one of these keys from now on; None: ask nobody. May be called again while the app serves."""
    app.state.keys = keys


class Needs(SecurityBase):
    """Lets a request in if its key has the scope, for the topology of the address if there is one.

    It runs before the body is read, before anything else of the address is checked and before Redis is asked. Raises
    `Unauthorized`, `Forbidden`.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.scheme_name = "key"
        self.model = HTTPBearer(description="A key made by `acker key make`.")

    async def __call__(self, request: Request) -> None:
        """Remember in the request who asks."""
        request.state.key = authenticate(request.app.state.keys, _shown(request))
        require(request, self.scope)


def needs(scope: str) -> Any:
    """Declare what a route needs: ``dependencies=[needs("ack")]``."""
    return Security(Needs(Scope(scope)), scopes=[scope])


def require(request: Request, scope: Scope) -> None:
    """Ask for a scope that only the request's content tells. Raises `Forbidden`."""
    authorize(request.state.key, scope, request.path_params.get("topology"))


def require_for(request: Request, operations: Operations) -> None:
    """Ask for what a batch needs beyond `ack`: an init needs `spout`. Raises `Forbidden`."""
    if contains(operations, Init):
        require(request, Scope.SPOUT)


def visible(request: Request, topologies: Iterable[str]) -> list[str]:
    """Those of the topologies that the request's key is for."""
    return [name for name in topologies if request.state.key.allows(name)]


def _shown(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else None
