"""Makes the images of a cluster as archives, which its nodes import: no registry is asked."""

import contextlib
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from acker_service.redis.embedded import find_program

from tests.deploy.chart import CHART
from tests.image import building
from tests.image.engine import Engine
from tests.image.spark import stand_in as spark_stand_in
from tests.image.stand_in import NAME as STAND_IN
from tests.image.stand_in import VALKEY, make_stand_in
from tests.kubernetes import cache, programs

ROOT = Path(__file__).parents[2]
ACKER = "registry.example.com/acker:0.1.0"
NEXT_ACKER = "registry.example.com/acker:0.1.1"
"""The same image under another name, so that a rollout has something to roll out."""

SPARK = "registry.example.com/acker-spark:0.1.0"
TOOLS = "localhost/tools:1"
_TOOLS = f"FROM {STAND_IN}\nRUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends curl iproute2\n"
_COPIED = ("Dockerfile", ".dockerignore", "requirements.lock", "client/pyproject.toml", "client/src", "service")
"""What of the repository the image of the acker is made of."""

_EXAMPLE = "deploy/examples/spark-word-count"
_ENTRY_POINT = "tests/kubernetes/spark_entrypoint.sh"
_COPIED_FOR_SPARK = ("client", "spark_connector", _EXAMPLE, _ENTRY_POINT)


def archives() -> list[Path]:
    """Return the archives of all images that a node needs, made where something has changed."""
    own = cache.kept("images-acker", _sources(*_COPIED), _make_acker)
    cache.forget_others(own)
    inputs = [VALKEY.encode(), _TOOLS.encode(), valkey().encode(), Path(find_program()).read_bytes()]
    others = cache.kept("images", inputs, _make_others)
    cache.forget_others(others)
    return [*(_of_program(name) for name in programs.SERVERS), *own.glob("*.tar"), *others.glob("*.tar")]


def spark() -> Path:
    """Return the archive of the image of the Spark example, made where something has changed (minutes)."""
    made = cache.kept("image-spark", _sources(*_COPIED_FOR_SPARK), _make_spark)
    cache.forget_others(made)
    return made / "spark.tar"


def valkey() -> str:
    """Return the name that the chart has for the image of Valkey."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return f"docker.io/{values['devValkey']['image']}"


def _of_program(name: str) -> Path:
    program = programs.built(name)
    inputs = [hashlib.sha256(program.read_bytes()).digest()]
    folder = cache.kept(f"image-{name}", inputs, lambda folder: _pack(program, folder / f"{name}.tar"))
    return folder / f"{name}.tar"


def _pack(program: Path, archive: Path) -> None:
    """Write the image of one static program, in the format of `docker save`."""
    layer = _tar([(program.name, program.read_bytes(), 0o755)])
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [f"localhost/{program.name}:1"], "Layers": ["layer.tar"]}]
    texts = {"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(config).encode()}
    members = [(name, content, 0o644) for name, content in (texts | {"layer.tar": layer}).items()]
    archive.write_bytes(_tar(members))


def _tar(members: Iterable[tuple[str, bytes, int]]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def _sources(*copied: str) -> Iterator[bytes]:
    """Yield what an image is made of: the names and contents of the files that git knows or could add."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *copied]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for path in (ROOT / name for name in sorted(filter(None, names))):
        if path.exists():
            yield str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes()


def _make_acker(folder: Path) -> None:
    with _stand_in() as engine:
        building.build(engine, ACKER)
        _save(engine, ACKER, folder / "acker.tar")


def _make_others(folder: Path) -> None:
    with _stand_in() as engine:
        for name, text, file in ((valkey(), VALKEY, "valkey"), (TOOLS, _TOOLS, "tools")):
            (engine.folder / file).write_text(text)
            building.build(engine, name, f"--file={engine.folder / file}")
        # Debian's server cannot migrate slots atomically. The one that the acker embeds is of the chart's own release.
        _add(engine, valkey(), Path(find_program()), "/usr/local/bin/valkey-server")
        for name, file in ((valkey(), "valkey"), (TOOLS, "tools")):
            _save(engine, name, folder / f"{file}.tar")


def _make_spark(folder: Path) -> None:
    """Build it on a stand-in for Spark's own image, and add the entry point that this one has."""
    with _engine() as engine:
        spark_stand_in.make_spark_stand_in(engine)
        options = (f"--file={ROOT / _EXAMPLE / 'Dockerfile'}", f"--build-arg=SPARK_IMAGE={spark_stand_in.NAME}")
        building.build(engine, "localhost/example", *options, ignoring=f"{_EXAMPLE}/Dockerfile.dockerignore")
        settings = '--entrypoint=["/opt/entrypoint.sh"]'
        _add(engine, "localhost/example", ROOT / _ENTRY_POINT, "/opt/entrypoint.sh", settings, name=SPARK)
        _save(engine, SPARK, folder / "spark.tar")


def _add(engine: Engine, base: str, program: Path, where: str, *settings: str, name: str = "") -> None:
    """Make an image anew with one program more, under the same name or another."""
    container = engine.buildah("from", "--pull-never", base)
    engine.buildah("copy", "--quiet", "--chmod=755", container, str(program), where)
    if settings:
        engine.buildah("config", *settings, container)
    engine.buildah("commit", "--quiet", "--rm", container, name or base)


def _save(engine: Engine, name: str, archive: Path) -> None:
    archive.unlink(missing_ok=True)
    engine.buildah("push", "--quiet", name, f"docker-archive:{archive}:{name}")


@contextlib.contextmanager
def _stand_in() -> Iterator[Engine]:
    """The tools that build images, with the stand-in for the base."""
    with _engine() as engine:
        make_stand_in(engine)
        yield engine


@contextlib.contextmanager
def _engine() -> Iterator[Engine]:
    """The tools that build images."""
    with tempfile.TemporaryDirectory(prefix="acker-kubernetes-") as folder:
        engine = Engine(Path(folder) / "engine")
        try:
            yield engine
        finally:
            engine.close()
