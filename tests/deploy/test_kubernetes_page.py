"""What docs/kubernetes.md tells people to type and to write works: its helm commands, its values, its files."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from acker_service.http.keys import configured_keys

from tests.deploy.chart import CASES, CHART, DEPLOY, Chart
from tests.deploy.tools import Tools
from tests.kubernetes import figures
from tests.support.pages import fences
from tests.support.servers import run_acker

ROOT = DEPLOY.parent
PAGE = ROOT / "docs/kubernetes.md"
FENCES = list(fences(PAGE.read_text()))
COMMANDS = [
    command
    for fence in FENCES
    if fence.language == "sh"
    for command in fence.code.replace("\\\n", " ").splitlines()
]  # fmt: skip
UPGRADES = [command for command in COMMANDS if command.startswith("helm upgrade")]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which what the page copies has been copied, as the root of the repository."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "my-values.yaml").write_text((DEPLOY / "examples/production.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", UPGRADES)
def test_each_helm_upgrade_renders(tools: Tools, there: Path, command: str) -> None:
    words = [word for word in shlex.split(command) if word not in {"--install", "--wait"}]
    assert words[:4] == ["helm", "upgrade", "acker", "deploy/helm/acker"]
    ran = tools.run("helm", "template", *words[2:])
    assert ran.returncode == 0, ran.stderr
    assert "kind: Deployment" in ran.stdout


def test_an_upgrade_says_all_files_again() -> None:
    *_, watched, upgrade = UPGRADES
    assert upgrade == watched.replace(" --install", "")


@pytest.mark.parametrize("fence", [f for f in FENCES if f.language == "yaml"], ids=lambda fence: str(fence.line))
def test_each_block_of_values_renders(chart: Chart, tmp_path: Path, fence: object) -> None:
    (tmp_path / "values.yaml").write_text(fence.code)  # type: ignore[attr-defined]
    assert yaml.safe_load(fence.code)  # type: ignore[attr-defined]
    assert chart.objects(*CASES["production"], tmp_path / "values.yaml")


def test_every_command_is_one_that_somebody_looked_at() -> None:
    programs = {shlex.split(command)[0] for command in COMMANDS}
    assert programs == {"helm", "kubectl", "curl", "cp", "sed", "acker", "echo", "head", "rm"}


def test_the_files_of_keys_that_the_page_makes_are_read_by_the_service(tmp_path: Path) -> None:
    made = [shlex.split(command) for command in COMMANDS if command.startswith("acker key make")]
    entries = []
    for _, *arguments, _, _ in made:
        ran = run_acker(*arguments)
        assert ran.returncode == 0, ran.stderr
        entries.append(ran.stdout.splitlines()[1])
    (tmp_path / "keys.json").write_text(f'{{"keys": [{", ".join(entries)}]}}')
    assert configured_keys(tmp_path / "keys.json") is not None


def test_the_secrets_that_the_page_makes_are_those_that_the_examples_name(chart: Chart) -> None:
    made = set(re.findall(r"create secret generic (\S+)", "\n".join(COMMANDS)))
    users = yaml.safe_load((DEPLOY / "examples/valkey-cluster/cluster.yaml").read_text())["spec"]["users"]
    made -= {user["passwordSecret"]["name"] for user in users}
    assert made == {"acker-redis", "acker-keys", "acker-test-key"}
    rendered = chart.text(*CASES["production"])
    assert [name for name in made if not re.search(rf"(secretName|name): {name}\b", rendered)] == []


def test_install_yaml_holds_the_image_that_the_page_replaces() -> None:
    (command,) = [command for command in COMMANDS if command.startswith("sed")]
    wanted = re.findall(r"s\|([^|]+)\|", command)[0]
    assert (DEPLOY / "install.yaml").read_text().count(wanted) == 2


def test_the_page_tells_of_every_alert() -> None:
    rules = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"][0]["rules"]
    told = re.findall(r"^\| `(Acker\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert told == [rule["alert"] for rule in rules if "alert" in rule]


@pytest.mark.parametrize(("kind", "least"), [(figures.Cost, 9), (figures.Usage, 2)])
def test_the_page_shows_the_figures_that_are_kept(kind: type[figures.Cost] | type[figures.Usage], least: int) -> None:
    kept = figures.read(kind)
    assert figures.table(kind, kept) + "\n" in PAGE.read_text()
    assert len(kept) >= least


def test_the_tolerations_of_the_page_are_those_that_the_figures_were_taken_with() -> None:
    (shown,) = [fence.code for fence in FENCES if fence.code.startswith("tolerations:")]
    taken = (ROOT / "tests/kubernetes/values/leaving.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(shown) == yaml.safe_load(taken)
