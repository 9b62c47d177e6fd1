"""What FastAPI says of the service's routes."""

import asyncio
import warnings
from typing import Any

from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings


def declared() -> dict[str, Any]:
    """Describe all routes but HEAD, of which the contract says one sentence for all."""
    app = make_app(Components("redis://127.0.0.1:1", window_ms=600_000), Settings(), asyncio.Event())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Duplicate Operation ID")  # HEAD has that of GET
        document = app.openapi()
    for item in document["paths"].values():
        item.pop("head", None)
    return document
