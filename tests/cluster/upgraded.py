"""An acker of the next release: its function library is a newer one, which replaces that of the others in Redis."""

from acker_service import __main__
from acker_service.redis import library

_own = library.source


def newer() -> str:
    """Return the library of the next release: a higher version, and a function more."""
    text, version = _own(), library.version(_own())
    raised = text.replace(f"local VERSION = {version}", f"local VERSION = {version + 1}")
    return raised + "\nregister('acker_next_v1', function() return VERSION end)\n"


if __name__ == "__main__":
    library.source = newer
    __main__.main()
