"""compose.yaml: of the form that Docker takes, and with a store and settings that the acker takes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from acker_service.redis.embedded import find_program
from acker_service.settings import Settings

from examples.support.ports import free_port
from tests.support.servers import acker_serve

COMPOSE = Path(__file__).parents[2] / "compose.yaml"
CHECK = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def complaints(file: Path) -> str:
    checked = subprocess.run([*CHECK, str(file)], capture_output=True, text=True, check=False)
    return "" if checked.returncode == 0 else checked.stdout


def test_it_is_what_docker_takes(tmp_path: Path) -> None:
    assert complaints(COMPOSE) == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(COMPOSE.read_text().replace("read_only:", "readonly:"))
    assert "readonly" in complaints(wrong)


def test_its_settings_are_settings(services: dict[str, Any]) -> None:
    named = {name.removeprefix("ACKER_").lower() for name in services["acker"]["environment"]}
    assert named <= Settings.model_fields.keys()


def test_an_acker_told_its_options_is_content_with_its_valkey(services: dict[str, Any], tmp_path: Path) -> None:
    program, *options = services["valkey"]["command"]
    serve, *own = services["acker"]["command"]
    assert (program, serve) == ("valkey-server", "serve")
    port = free_port()
    command = [find_program(), *options, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as valkey:
        try:
            told = [option.replace("valkey:6379", f"127.0.0.1:{port}") for option in own]
            with acker_serve(tmp_path / "acker", *told) as acker:
                assert "warning" not in acker.log.read_text().lower()
        finally:
            valkey.terminate()
