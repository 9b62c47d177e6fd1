"""Make wheels of the client with its compiled hot path: ``python client/wheels.py dist/acker_client-….whl dist``.

Each is the wheel that is given, which is for every platform, with one file more, for one platform and the release of
Python that runs this. Needs Cython, the headers of this Python, and ziglang, which has a C compiler for each platform.
"""

import argparse
import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from compile import FLAGS, SOURCE, compiled_folder, missing, write_c

VERSION = f"{sys.version_info.major}{sys.version_info.minor}"
PLATFORMS = {
    "manylinux_2_17_x86_64": ("x86_64-linux-gnu.2.17", "x86_64-linux-gnu"),
    "manylinux_2_17_aarch64": ("aarch64-linux-gnu.2.17", "aarch64-linux-gnu"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "x86_64-linux-musl"),
    "musllinux_1_2_aarch64": ("aarch64-linux-musl", "aarch64-linux-musl"),
    "macosx_11_0_x86_64": ("x86_64-macos.11.0", "darwin"),
    "macosx_11_0_arm64": ("aarch64-macos.11.0", "darwin"),
}
"""The platform in the name of a wheel, as ziglang has it, and in the name of an extension module there."""
EPOCH = (1980, 1, 1, 0, 0, 0)


def compile_for(platform: str, source: Path, to: Path) -> None:
    """Make an extension module for another platform."""
    target, _ = PLATFORMS[platform]
    loaded_by_python = ["-Wl,-undefined,dynamic_lookup"] if "macos" in target else []
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-fPIC", "-s", *FLAGS]
    include = sysconfig.get_paths()["include"]
    subprocess.run([*command, *loaded_by_python, f"-I{include}", str(source), "-o", str(to)], check=True)


def add_to_wheel(pure: Path, platform: str, module: Path, folder: Path) -> Path:
    """Write the wheel of a platform: the one that is given, with the module where the client finds it."""
    tag = f"cp{VERSION}-cp{VERSION}-{platform}"
    wheel = folder / pure.name.replace("py3-none-any", tag)
    name = f"hot_path.cpython-{VERSION}-{PLATFORMS[platform][1]}.so"
    place = (compiled_folder() / name).relative_to(SOURCE).as_posix()
    content = module.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(pure) as given, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        record = next(each for each in given.namelist() if each.endswith(".dist-info/RECORD"))
        about = record.replace("RECORD", "WHEEL")
        said = re.sub("(?m)^Tag: .*$", f"Tag: {tag}", given.read(about).decode())
        said = said.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        about_digest = base64.urlsafe_b64encode(hashlib.sha256(said.encode()).digest()).rstrip(b"=").decode()
        lines = [line for line in given.read(record).decode().splitlines() if not line.startswith(f"{about},")]
        lines += [f"{about},sha256={about_digest},{len(said.encode())}", f"{place},sha256={digest},{len(content)}"]
        replaced = {about: said.encode(), record: "".join(f"{line}\n" for line in lines).encode()}
        for entry in given.infolist():
            made.writestr(entry, replaced.get(entry.filename, given.read(entry)))
        made.writestr(zipfile.ZipInfo(place, EPOCH), content, zipfile.ZIP_DEFLATED)
    return wheel


def main() -> int:
    """Make the wheel of each platform."""
    parser = argparse.ArgumentParser(description="Make wheels of the client with its compiled hot path.")
    parser.add_argument("pure", type=Path, help="the wheel that is for every platform")
    parser.add_argument("folder", type=Path, help="the folder of the wheels")
    parser.add_argument("--platform", choices=PLATFORMS, action="append", help="only this platform")
    given = parser.parse_args()
    lacking = missing()
    if lacking is not None:
        sys.stderr.write(f"no wheels are made: this needs {lacking}\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "hot_path.c"
        write_c(source)
        for platform in given.platform or PLATFORMS:
            module = Path(scratch) / f"{platform}.so"
            compile_for(platform, source, module)
            sys.stdout.write(f"{add_to_wheel(given.pure, platform, module, given.folder)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
