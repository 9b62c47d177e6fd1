"""Which form of the hot path runs: compiled, where that was made of the very sources that stand here, or interpreted.

The compiled form lies in a folder whose name is the digest of its sources, so a stale one is never found.
"""

import hashlib
import os
from importlib.machinery import ExtensionFileLoader

FOLDER = "compiled"
SOURCES = ("hot_path.py", "hot_path.pxd", "id_map.pxd", "locks.pxd", "wire_ids.pxd")
"""What the compiler reads, beside this module."""


def compiled_folder(core: str) -> str:
    """Return the folder in which the compiled form of the sources in ``core`` lies, if there is one.

    Raises `OSError` where a source is missing.
    """
    digest = hashlib.sha256()
    for name in SOURCES:
        with open(os.path.join(core, name), "rb") as file:  # noqa: PTH118, PTH123 - pathlib takes longer to import
            content = file.read()
        digest.update(b"%d " % len(content) + content)
    return os.path.join(core, FOLDER, digest.hexdigest()[:16])  # noqa: PTH118


def search_path(core: str) -> list[str]:
    """Return where the modules of the core are searched: first among what is compiled of them."""
    if not os.path.isdir(os.path.join(core, FOLDER)):  # noqa: PTH112, PTH118
        return [core]
    try:
        return [compiled_folder(core), core]
    except OSError:  # a program that was packed without its sources
        return [core]


def form_of(module: object) -> str:
    """Return the form of the hot path that was imported: ``compiled`` or ``interpreted``."""
    return "compiled" if isinstance(getattr(module, "__loader__", None), ExtensionFileLoader) else "interpreted"
