"""The options of `acker serve` come from the settings alone."""

import os
import re
from typing import Any

import pytest
from acker_service.__main__ import cli
from acker_service.settings import Settings
from typer.testing import CliRunner

WITHOUT_A_SHOWN_DEFAULT = {
    "redis_url",
    "data_dir",
    "store_port",
    "keys_file",
    "tls_cert",
    "tls_key",
    "allowed_hosts",
    "allowed_origins",
    "message_url",
    "callback_allow_cidrs",
    "callback_allow_hosts",
}
FLAGS = {"open": "--open / --closed", "fsync_asserted": "--fsync-asserted"}


@pytest.fixture(scope="module")
def options() -> dict[str, str]:
    """By setting, how the help describes its option; in one line each."""
    shown = CliRunner().invoke(cli, ["serve", "--help"], env=os.environ | {"COLUMNS": "80"})
    assert shown.exit_code == 0
    described = re.findall(r"^  --([a-z-]+)(.*(?:\n {4,}.*)*)", shown.output, re.MULTILINE)
    return {name.replace("-", "_"): " ".join(f"--{name}{text}".split()) for name, text in described}


def test_every_setting_is_an_option(options: dict[str, str]) -> None:
    assert options.keys() - {"help"} == Settings.model_fields.keys()


@pytest.mark.parametrize(("name", "field"), Settings.model_fields.items())
def test_an_option_has_its_setting_s_description_and_says_its_default_once(
    options: dict[str, str], name: str, field: Any
) -> None:
    assert field.description in options[name]
    if name in FLAGS:
        assert options[name] == f"{FLAGS[name]} {field.description} [false]"
    elif name in WITHOUT_A_SHOWN_DEFAULT:
        assert options[name].endswith(field.description)
        assert field.description.endswith("]")
    else:
        assert options[name].endswith(f"{field.description} [{field.default}]")
