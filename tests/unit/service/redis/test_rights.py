"""Tests what is asked of a login, against what the library and the driver run."""

import re
from pathlib import Path

import pytest
from acker_service.redis import library, rights

IN_LUA = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'(?:, '([A-Z]+)')?")
IN_PYTHON = re.compile(r'\bread\(\s*"([A-Z]+)"')
DRIVER = Path(library.__file__).parent


def asked() -> set[str]:
    return {command.partition(" ")[0] for command in (*rights.COMMANDS, *rights.HINTS)}


def test_every_command_that_a_function_runs_is_asked_about() -> None:
    found = {name.lower() for name, _ in IN_LUA.findall(library.source())}
    plain = {name.lower() for path in DRIVER.rglob("*.py") for name in IN_PYTHON.findall(path.read_text())}
    assert len(found) > 30
    assert asked() - (found | plain) == {"fcall", "function", "ssubscribe"}
    assert found | plain <= asked()


def test_a_command_is_asked_about_with_a_key_or_channel_of_ackers() -> None:
    without = [command for command in rights.COMMANDS if "acker:" not in command]
    assert without == ["function load -", "info", "time"]
    assert all(" acker:" in command for command in (*rights.HINTS, rights.delivery("PUBLISH")))


@pytest.mark.parametrize(
    ("lacking", "rules"),
    [
        (["info"], "+info"),
        (["function load -"], "+function|load"),
        (["xinfo stream acker:{default/0}:rights", "time"], "~acker:* +xinfo +time"),
        ([*rights.COMMANDS], "~acker:* +function|load +info +time"),
        ([*rights.HINTS], "&acker:* +spublish +ssubscribe"),
        ([rights.delivery("PUBLISH"), *rights.WAIT], "&acker:* +publish +wait"),
    ],
)
def test_what_is_missing_is_written_as_rules_to_grant(lacking: list[str], rules: str) -> None:
    assert rights.grants(lacking) == rules
