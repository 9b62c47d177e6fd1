"""httpx2, which continues httpx and is maintained, where it is installed, and httpx elsewhere; both have one API.

What a program hands over, a transport or a client, is used with the library that it is of.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx
    import httpx2

    Transport = httpx.BaseTransport | httpx2.BaseTransport | httpx.Client | httpx2.Client
    AsyncTransport = httpx.AsyncBaseTransport | httpx2.AsyncBaseTransport | httpx.AsyncClient | httpx2.AsyncClient
else:
    try:
        import httpx2 as httpx
    except ImportError:
        import httpx

__all__ = ["errors", "httpx", "library_of"]

NAMES = ("httpx", "httpx2")


def library_of(given: Any) -> Any:
    """Return the library of a transport or client, by its class and those above it; the one of this module for None.

    A library that the program has put in the place of httpx, by ``httpx2.alias_httpx()``, is found under both names.
    """
    packages = {kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    return next((sys.modules[name] for name in NAMES if name in packages), httpx)


def errors(*names: str) -> tuple[type[Exception], ...]:
    """Return the errors of these names of both libraries, as far as they are imported.

    A transport may raise those of the other library: one that wraps it, or a fault that a test injects.
    """
    loaded = filter(None, map(sys.modules.get, NAMES))
    return tuple(getattr(library, name) for library in loaded for name in names)
