"""``acker doctor`` names each trouble by its entry in the runbook, and is silent where all is well."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from acker_client import Acker

from tests.runbook.troubles import TROUBLES, Scene, acked_too_often
from tests.support.pages import DOCS
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(400)

PATIENCE_S = 200


def doctor(variables: Mapping[str, str], *options: str) -> "subprocess.CompletedProcess[str]":
    """Run it as an operator does."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    command = [str(Path(sys.executable).with_name("acker")), "doctor", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=others | variables, timeout=60)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_doctor_names_a_trouble_by_its_entry_in_the_runbook(scenes: dict[str, Scene], trouble: str) -> None:
    def is_named() -> bool:
        seen = doctor(scenes[trouble].variables, "-o", "jsonl")
        rules = [json.loads(line)["rule"] for line in seen.stdout.splitlines()]
        assert seen.returncode in ({0} if not rules else {10, 11}), seen
        return trouble in rules

    eventually_true(is_named, within=PATIENCE_S)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_finding_says_what_to_do_and_links_to_its_entry(scenes: dict[str, Scene], trouble: str) -> None:
    eventually_true(lambda: trouble in doctor(scenes[trouble].variables).stdout, within=PATIENCE_S)
    said = doctor(scenes[trouble].variables).stdout
    assert f"docs/runbook.md#{trouble}" in said


def test_doctor_says_first_that_a_full_mailbox_refuses_inits(scenes: dict[str, Scene]) -> None:
    scene = scenes["mailbox-grows"]
    roots = itertools.count(1)

    def is_refused() -> bool:
        init = {"root_id": f"{next(roots):016x}", "edges": ["00000000000000b1"], "spout_task": "shop"}
        return scene.acker.http.post("/v1/topologies/orders/init", json=init).status_code == 429

    eventually_true(is_refused, within=PATIENCE_S)
    first = doctor(scene.variables).stdout.splitlines()[0]
    assert first.startswith(
        "trouble: new inits of orders/shop are refused with mailbox_full: 50 completions are unread"
    )


def test_doctor_says_that_a_tuple_was_acked_more_often_than_sent(tmp_path: Path) -> None:
    with acked_too_often(tmp_path) as scene:
        eventually_true(lambda: "roots-time-out" in doctor(scene.variables).stdout, within=PATIENCE_S)
        said = doctor(scene.variables).stdout
    assert "timed out in the last 10 min, 10 of the last 10 because a tuple was acked more often than sent" in said
    assert "do: let a tuple that comes twice count once: acker topology set orders --dedupe-window automatic; " in said


def test_doctor_is_silent_on_a_healthy_acker_under_load(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker, Acker(acker.url) as client:
        spout = client.shared_spout("shop")
        ended: set[tuple[str, str]] = set()
        for number in range(2_000):
            with spout.emit(message_id=str(number)) as root:
                headers = root.headers()
            with client.receive(headers, component="charge"):
                pass
            if number % 500 == 0:
                said = doctor({"ACKER_URL": acker.url})
                assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
        for completion in spout.completions(stop=lambda: len(ended) == 2_000, poll_timeout=1):
            ended.add((completion.root_id, completion.outcome))
        said = doctor({"ACKER_URL": acker.url})
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
        assert {outcome for _, outcome in ended} == {"acked"}


def test_every_entry_of_the_runbook_has_a_trouble_and_all_its_parts() -> None:
    text = (DOCS / "runbook.md").read_text()
    entries = {
        title.lower().replace(" ", "-"): entry
        for title, entry in re.findall(r"^## (.*)\n((?:(?!^## )[\s\S])*)", text, re.M)
    }
    assert list(entries) == list(TROUBLES)
    for name, entry in entries.items():
        assert re.findall(r"^\*\*(.*?)\*\*", entry, re.M) == ["You see", "Type", "It means", "Do", "Do not"], name
