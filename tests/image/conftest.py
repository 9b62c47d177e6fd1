"""The image, built once for all tests of this folder."""

import os
import shutil
from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.chart import CHART
from tests.image.building import Built, build
from tests.image.engine import Engine
from tests.image.stand_in import VALKEY, make_stand_in

NEEDED = ("buildah", "podman", "runc", "mmdebstrap")
TAG = "localhost/acker:test"


def _missing() -> str:
    """Describe what this machine lacks to build images; empty if nothing."""
    programs = [name for name in NEEDED if shutil.which(name) is None]
    if os.geteuid() != 0:
        return "only root can lay out an image"
    return f"missing: {', '.join(programs)} (.ci/run installs them)" if programs else ""


@pytest.fixture(scope="session")
def bare_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tools, with nothing in their storage."""
    if lacks := _missing():
        assert os.environ.get("CI") != "true", lacks
        pytest.skip(lacks)
    engine = Engine(tmp_path_factory.mktemp("image") / "engine")
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def engine(bare_engine: Engine) -> Engine:
    """The tools, with the stand-in for the base image in their storage."""
    make_stand_in(bare_engine)
    return bare_engine


@pytest.fixture(scope="session")
def image(engine: Engine) -> Built:
    """The image, under the name TAG."""
    return build(engine, TAG)


@pytest.fixture(scope="session")
def valkey_image(engine: Engine) -> str:
    """An image with a Valkey, under the name that the chart says."""
    name = yaml.safe_load((CHART / "values.yaml").read_text())["devValkey"]["image"]
    file = engine.folder / "Dockerfile.valkey"
    file.write_text(VALKEY)
    build(engine, f"docker.io/{name}", f"--file={file}")
    return str(name)
