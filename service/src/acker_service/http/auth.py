"""Authenticates and authorizes requests: every route declares the scope that it requires with `needs`."""

from collections.abc import Iterable, Sequence
from typing import Any

from acker_protocol.errors import Unauthorized
from fastapi import FastAPI, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from acker_service.http.keys import Key, Scope, authenticate, authorize
from acker_service.http.parameters import check_query, declared_parameters


def install(app: FastAPI, keys: Sequence[Key] | None) -> None:
    """Require one of these keys from now on; None requires no key. May be called again while the app serves.

    ``state.rates`` holds them to their rates.
    """
    app.state.keys = keys
    app.state.rates.install(keys or ())


class Needs(SecurityBase):
    """Admits a request if its key is within its rate and has the scope, for the topology in its path if it has one.

    Then checks the names of the query's parameters. Runs before the body is read, any other parameter is checked or
    Redis is called. Raises `Unauthorized`, `RateExceeded`, `Forbidden`, `InvalidRequest`.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.scheme_name = "key"
        self.model = HTTPBearer()

    async def __call__(self, request: Request) -> None:
        """Check the key and keep it in the request's state."""
        request.state.need = self.scope
        _identify(request)
        if request.state.key.rate is not None:
            request.app.state.rates.take_request(request.state.key)
        _authorize(request)
        if request.scope["query_string"]:
            check_query(request.query_params, declared_parameters(request))


def check_again(request: Request) -> None:
    """Look the key of an admitted request up again: streams, long polls and slow bodies outlast a change of the keys.

    Costs next to nothing while the keys stay as they were. Raises `Unauthorized`, `Forbidden`.
    """
    if request.app.state.keys is not request.state.keys:
        _identify(request)
        _authorize(request)


def _identify(request: Request) -> None:
    """Find the key among those that are valid now, and keep both in the request's state. Raises `Unauthorized`."""
    request.state.keys = request.app.state.keys
    request.state.key = _key_of(request)


def _authorize(request: Request) -> None:
    """Check that the key has the scope that the route needs, for the topology in the path. Raises `Forbidden`."""
    authorize(request.state.key, request.state.need, request.path_params.get("topology"))


def has_key(request: Request) -> bool:
    """Whether a request to a route that needs no key has a valid one; every request has, where none are configured."""
    try:
        _key_of(request)
    except Unauthorized:
        return False
    return True


def _key_of(request: Request) -> Key:
    """Find the key that a request names. Raises `Unauthorized`."""
    return key_of(request.app.state.keys, request.headers.get("authorization", ""))


def key_of(keys: Sequence[Key] | None, authorization: str) -> Key:
    """Find the key that the value of an Authorization header names. Raises `Unauthorized`."""
    scheme, _, secret = authorization.partition(" ")
    return authenticate(keys, secret.strip() if scheme.lower() == "bearer" else None)


def needs(scope: str) -> Any:
    """Declare the scope that a route requires: ``dependencies=[needs("ack")]``."""
    return Security(Needs(Scope(scope)), scopes=[scope])


def require(request: Request, scope: Scope) -> None:
    """Require a scope that depends on the request's content. Raises `Forbidden`."""
    authorize(request.state.key, scope, request.path_params.get("topology"))


def visible(request: Request, topologies: Iterable[str]) -> list[str]:
    """Keep the topologies that the request's key allows."""
    return [name for name in topologies if request.state.key.allows(name)]
