"""The client for Java is built as its README says, and what its pages show is what happens."""

import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.programs import building, java_classpath
from tests.support.examples import ADDRESS
from tests.support.pages import DOCS, ROOT, fences
from tests.support.servers import AckerProcess, acker_serve

FOLDER = ROOT / "client/java"
PAGES = (FOLDER / "README.md", DOCS / "java.md")
MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("java"),
    pytest.mark.skipif(
        shutil.which("mvn") is None or shutil.which("javac") is None,
        reason="the client for Java needs a JDK and Maven",
    ),
]


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data")) as acker:
        yield acker


@pytest.fixture(scope="module")
def classpath() -> str:
    """The path of the client's classes and of what they need."""
    with building("java"):
        return java_classpath()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, acker: AckerProcess, classpath: str, tmp_path: Path) -> None:
    blocks = [*fences(page.read_text())]
    source = "\n".join(block.code for block in blocks if block.language == "java")
    name = source.partition("public class ")[2].split()[0]
    program = tmp_path / f"{name}.java"
    program.write_text(source.replace(ADDRESS, acker.url))
    ran = subprocess.run(["java", "-cp", classpath, str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    shown = "\n".join(block.code for block in blocks if block.language == "text")
    assert ran.stdout.strip() == shown.strip()


def test_the_client_needs_one_library_and_others_only_where_a_program_has_them() -> None:
    needed = [
        dependency.findtext("m:artifactId", namespaces=MAVEN)
        for dependency in _pom().iterfind("m:dependencies/m:dependency", MAVEN)
        if dependency.find("m:scope", MAVEN) is None and dependency.find("m:optional", MAVEN) is None
    ]
    assert needed == ["jackson-core"]


def test_its_readme_names_the_version_of_the_other_distributions() -> None:
    python = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["version"]
    [dependency] = [fence.code for fence in fences(PAGES[0].read_text()) if fence.language == "xml"]
    assert _pom().findtext("m:version", namespaces=MAVEN) == python
    assert f"<version>{python}</version>" in dependency


def _pom() -> ElementTree.Element:
    return ElementTree.parse(FOLDER / "pom.xml").getroot()  # a file of the repository
