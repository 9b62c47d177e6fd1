"""Runs the commands of docs/kubernetes.md in a cluster, as somebody would who pastes them."""

import re
import subprocess
import sys
from pathlib import Path

from tests.deploy.chart import DEPLOY
from tests.kubernetes.cluster import Cluster, warnings
from tests.support.pages import fences

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")


def blocks(heading: str) -> list[str]:
    """Return the commands of a section of the page, a text for each block."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    return [fence.code for fence in fences(section) if fence.language == "sh"]


def paste(cluster: Cluster, text: str, *, folder: Path = ROOT) -> None:
    """Run commands in a folder; none fails, and nothing is warned of."""
    path = f"{Path(sys.executable).parent}:{cluster.environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-e"],
        input=text,
        cwd=folder,
        env={**cluster.environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert warnings(ran.stderr) == []
