"""The module of the client for Go is used as its README says, and what its pages show is what happens."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.examples import ADDRESS
from tests.support.pages import DOCS, ROOT, fences
from tests.support.servers import AckerProcess, acker_serve

MODULE = ROOT / "client/go"
PAGES = (MODULE / "README.md", DOCS / "go.md")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("go") is None, reason="the client for Go needs go"),
]


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of a program that uses the client, by the command of the README."""
    folder = tmp_path_factory.mktemp("program")
    [command] = [fence.code for fence in fences(PAGES[0].read_text()) if fence.language == "sh"]
    ran("go mod init program", cwd=folder)
    ran(command.replace("../acker/client/go", str(MODULE)), cwd=folder)
    return folder


def ran(command: str, *, cwd: Path) -> str:
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOPROXY": "off"}
    done = subprocess.run(
        ["bash", "-euc", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, program: Path, acker: AckerProcess) -> None:
    blocks = [*fences(page.read_text())]
    source = "\n".join(block.code for block in blocks if block.language == "go")
    (program / "main.go").write_text(source.replace(ADDRESS, acker.url) + "\n")
    assert ran("gofmt -l main.go", cwd=program) == ""
    shown = "\n".join(block.code for block in blocks if block.language == "text")
    assert ran("go run .", cwd=program).strip() == shown.strip()


def test_the_client_needs_the_standard_library_alone() -> None:
    used = ran("go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./...", cwd=MODULE).split()
    assert used == ["acker.example/acker", "acker.example/acker/ackertest"]


def test_its_readme_names_the_version_of_the_other_distributions() -> None:
    python = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]
    assert f"acker.example/acker@v{python} " in PAGES[0].read_text()
