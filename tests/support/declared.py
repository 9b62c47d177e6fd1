"""What the service's routes say of themselves: those of operations, and by FastAPI all others."""

import asyncio
import warnings
from typing import Any

from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.answers import ALL, EXCEPTIONS
from acker_service.http.operations import ROUTES, OperationRoute
from acker_service.settings import Settings


def declared() -> dict[str, Any]:
    """Describe all routes but HEAD, of which the contract says one sentence for all."""
    app = make_app(Components("redis://127.0.0.1:1", window_ms=600_000), Settings(), asyncio.Event())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Duplicate Operation ID")  # HEAD has that of GET
        document = app.openapi()
    for item in document["paths"].values():
        item.pop("head", None)
    document["paths"] |= {route.template: {"post": _operation(route)} for route in ROUTES.values()}
    return document


def _operation(route: OperationRoute) -> dict[str, Any]:
    """Describe a route of operations as FastAPI would."""
    shown = {"type": "string", "enum": [ALL, EXCEPTIONS], "default": ALL}
    return {
        "parameters": [
            {"name": "topology", "in": "path", "required": True, "schema": {}},
            *({"name": name, "in": "query", "required": False, "schema": shown} for name in route.parameters),
            {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "schema": {}},
        ],
        "security": [{"key": [str(route.need)]}],
        "tags": ["operations"],
    }
