"""A disk that loses power: a file system in a file, which forgets what was not flushed. Needs a loop device."""

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SHUTDOWN, _WITHOUT_FLUSH = 0x8004587D, 2
"""ext4's ioctl that cuts a file system off from its disk: neither data nor journal are written any more."""

SIZE = 256 * 1024 * 1024


class Disk:
    """A disk, mounted at ``folder``."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder = folder
        self._image = image
        folder.mkdir()
        with image.open("wb") as file:
            file.truncate(SIZE)
        _run("mkfs.ext4", "-q", str(image))
        self._mount()

    def lose_power(self) -> None:
        """Forget what was not flushed; whoever writes from now on fails."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def come_back(self) -> None:
        """Have power again, with what the disk holds; nobody may use the folder meanwhile.

        Mounted from a copy: what was shut down stays so as long as anybody has it mounted, and whoever made a mount
        namespace meanwhile, as tools for containers do, has.
        """
        _run("umount", str(self.folder))
        copy = self._image.with_suffix(".copy")
        _run("cp", "--sparse=always", str(self._image), str(copy))
        self._image = copy
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Return a disk that is mounted until the block is left."""
    mounted = folder / "disk"
    try:
        yield Disk(folder / "image", mounted)
    finally:
        if mounted.is_mount():
            _run("umount", str(mounted))


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr.strip()}"
