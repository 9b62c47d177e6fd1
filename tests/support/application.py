"""One application for many tests: FastAPI takes fifty times as long to build its routes as to answer a request."""

from asyncio import Event
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.application import Application
from acker_service.settings import Settings

_WITH_STATE = ("acker_service.", "prometheus_client.", "asyncio.locks")
"""The modules whose objects hold what a test leaves behind."""


class SharedApplication:
    """An application with default settings, whose parts are new in each test.

    Its routes keep the objects that they were built with. In each test these objects get the attributes of new ones.
    """

    def __init__(self) -> None:
        self._app: Application | None = None
        self._held: _Held | None = None

    def over(self, parts: Components, stopping: Event) -> Application:
        """Return the application over these parts; it leaves the former ones."""
        if self._app is None or self._held is None:
            self._held = _hold([parts, stopping], set())
            self._app = make_app(parts, Settings(), stopping)
        else:
            _renew(self._held, [parts, stopping])
            parts.metrics.set_version(self._app.version)
        return self._app


@dataclass(frozen=True, slots=True)
class _Held:
    """An object that the routes may hold, and those that it led to when they were built."""

    value: Any
    within: dict[Any, "_Held"]


def _hold(value: Any, seen: set[int]) -> _Held:
    """Return an object with all that it leads to, each once."""
    seen.add(id(value))
    within = {name: _hold(each, seen) for name, each in _items(value) if id(each) not in seen and _has_state(each)}
    return _Held(value, within)


def _renew(held: _Held, new: Any) -> None:
    """Let objects share the attributes of those that stand in their places: what one of both sets, the other has."""
    if type(held.value) is not type(new):
        return
    found = dict(_items(new))
    for name, each in held.within.items():
        if name in found:
            _renew(each, found[name])
    if hasattr(new, "__dict__"):
        object.__setattr__(held.value, "__dict__", vars(new))


def _has_state(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) or type(value).__module__.startswith(_WITH_STATE)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    else:
        yield from getattr(value, "__dict__", {}).items()
        for name in getattr(type(value), "__slots__", ()):
            if hasattr(value, name):
                yield name, getattr(value, name)
