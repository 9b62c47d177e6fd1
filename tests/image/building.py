"""Builds the image of the repository's Dockerfile on a stand-in for its base."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.image.engine import Engine
from tests.image.stand_in import NAME as STAND_IN

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"
"""The time that everything in the image bears; `SOURCE_DATE_EPOCH` under Docker."""

_TRUST = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What an image is: the digests of its layers, and how it is to be run.

    (Its id is another each time: Docker's format, the one that has HEALTHCHECK, holds the name of a container.)
    """

    layers: list[str]
    settings: dict[str, Any]


def build(engine: Engine, tag: str, *options: str, ignoring: str = ".dockerignore") -> Built:
    """Build an image, from nothing; nothing of this machine but its network enters it, and of the repository what
    the file ``ignoring`` lets through.
    """
    settings = engine.folder / "pip.conf"
    settings.write_text(_pip_settings())
    engine.buildah(
        *("build", "--pull-never", "--isolation=chroot", "--no-cache", "--format=docker", f"--timestamp={EPOCH}"),
        *(f"--build-arg={name}={STAND_IN}" for name in ("PYTHON_IMAGE", "BUILD_IMAGE")),
        f"--volume={_trusted()}:{_TRUST}:ro",
        *(f"--volume={settings}:/etc/pip.conf:ro", f"--ignorefile={ROOT / ignoring}", f"--tag={tag}"),
        *(*options, str(ROOT)),
    )
    return built(engine, tag)


def built(engine: Engine, tag: str) -> Built:
    """Look at an image."""
    told = json.loads(engine.buildah("inspect", "--type=image", tag))["Docker"]
    return Built(layers=told["rootfs"]["diff_ids"], settings=told["config"] | {"Hostname": ""})


def _trusted() -> str:
    return os.environ.get("SSL_CERT_FILE", _TRUST)


def _pip_settings() -> str:
    """Describe where this machine's pip finds packages, for the time of the build; the Dockerfile names no index."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    index = os.environ.get("PIP_INDEX_URL") or told
    return f"[global]\ncert = {_TRUST}\n" + (f"index-url = {index}\n" if index else "")
