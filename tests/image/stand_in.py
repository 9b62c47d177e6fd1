"""Makes the images that our Dockerfiles build on out of Debian's packages, where no registry can be asked.

That of Python is of the same distribution, with the same Python and the same paths as the official one. For tests
alone: nothing made of them is to be published.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.image.engine import Engine
from tests.support.debian import mirror

SUITE, PYTHON = "trixie", "3.13"
NAME = "localhost/python-stand-in"
VALKEY = f"FROM {NAME}\nRUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends valkey-server\n"
"""Builds what stands in for the image of Valkey: Debian's, which has the same programs."""

_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_PIP = "#!/usr/local/bin/python3\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
_UNNEEDED = ("man", "doc", "locale")


def make_stand_in(engine: Engine) -> None:
    """Put the image NAME into the engine's storage (half a minute)."""
    root = engine.folder / "root"
    bootstrap(engine, root, SUITE, f"python{PYTHON}")
    for name in (f"python{PYTHON}", "python3", "python"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/python{PYTHON}")
    (root / f"usr/lib/python{PYTHON}/EXTERNALLY-MANAGED").unlink(missing_ok=True)
    _install_pip(engine.folder, root)
    commit(engine, root, NAME, "--cmd=python3", f"--env=PATH={_PATH}")


def commit(engine: Engine, root: Path, name: str, *settings: str) -> None:
    """Make an image of a folder, which goes."""
    container = engine.buildah("from", "scratch")
    engine.buildah("add", "--quiet", container, str(root), "/")
    engine.buildah("config", *settings, "--env=LANG=C.UTF-8", container)
    engine.buildah("commit", "--quiet", "--rm", container, name)
    engine.run("rm", "-rf", str(root))


def bootstrap(engine: Engine, root: Path, suite: str, *packages: str) -> None:
    """Lay out a small Debian with some packages."""
    without = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _UNNEEDED]
    included = f"--include={','.join(('ca-certificates', *packages))}"
    without.append('--essential-hook=mkdir -p "$1/usr/share/man/man1"')  # Java's page gets a link there
    without.append('--aptopt=Acquire::Retries "9"')
    how = ["--quiet", "--mode=root", "--variant=minbase", "--format=directory", included, *without]
    engine.run("mmdebstrap", *how, suite, str(root), mirror())
    for unclean in ("dev", "var/cache/apt", "var/lib/apt/lists", "var/log"):
        engine.run("find", str(root / unclean), "-mindepth", "1", "-delete")


def _install_pip(folder: Path, root: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "pip"]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("pip-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(root / f"usr/local/lib/python{PYTHON}/dist-packages")
    script = root / "usr/local/bin/pip"
    script.write_text(_PIP)
    script.chmod(0o755)
