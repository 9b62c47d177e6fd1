"""What tells that a file has changed, without reading it."""

from pathlib import Path


def fingerprint(*paths: Path) -> object:
    """Return a value that differs once one of the files has been written, replaced or removed."""
    return tuple(_fingerprint(path) for path in paths)


def _fingerprint(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
