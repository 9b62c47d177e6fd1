"""What is made once and kept outside the repository, in a folder for each set of inputs."""

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import platformdirs


def home() -> Path:
    """Return the folder of all that is kept, and of the cluster while it runs."""
    folder = platformdirs.user_cache_path("acker-kubernetes")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(name: str, inputs: Iterable[bytes], make: Callable[[Path], None]) -> Path:
    """Return the folder that ``make`` has filled, once for the same inputs; another process waits for it meanwhile."""
    digest = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in inputs)).hexdigest()[:16]
    folder = home() / f"{name}-{digest}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            make(folder)
            (folder / "complete").touch()
    return folder


def forget_others(folder: Path) -> None:
    """Remove what was kept under the same name for other inputs."""
    name, _, _ = folder.name.rpartition("-")
    for other in folder.parent.glob(f"{name}-{'[0-9a-f]' * 16}"):
        if other != folder:
            shutil.rmtree(other)
