"""A Lambda as a bolt: docs/lambda.md works when pasted, and so do records in each form, against a real acker."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from acker_client import Acker, FailTuple
from acker_client.sources.sqs import headers_of

from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess
from tests.unit.client.test_sqs_messages import ANCHORS, FORMS


def test_the_page_works_when_pasted(process: AckerProcess, tmp_path: Path) -> None:
    function, event, answer = [fence.code for fence in fences((DOCS / "lambda.md").read_text())]
    (tmp_path / "charges.py").write_text(function)
    environment = {"ACKER_URL": process.url, "ACKER_TOPOLOGY": "charges"}
    ran = subprocess.run(
        [sys.executable, "-c", event],
        env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    assert ran.stdout.strip() == answer.strip()


@pytest.fixture
def tracked(client: Acker) -> Any:
    """A client of a topology with a dedupe window, and a spout."""
    client.topologies.create(client.topology, message_timeout=300, dedupe_window=600)
    spout = client.shared_spout("orders")
    return SimpleNamespace(acker=client, spout=spout)


def with_anchors(message: Any, anchors: str) -> Any:
    """Put other anchors into a message, wherever it has them."""
    if isinstance(message, dict):
        return {name: with_anchors(each, anchors) for name, each in message.items()}
    return message.replace(ANCHORS, anchors) if isinstance(message, str) else message


@pytest.mark.parametrize("form", FORMS)
def test_a_record_in_each_form_is_acked_and_counts_once_when_it_comes_again(tracked: Any, form: str) -> None:
    with tracked.spout.emit(message_id="m") as root:
        record = with_anchors(FORMS[form], root.headers()["Acker-Anchors"])
    for _ in range(2):
        with tracked.acker.receive(headers_of(record), component="charge"):
            pass
    [completion] = tracked.spout.completions(until=0)
    assert completion.outcome == "acked"


def test_a_record_that_failed_is_open_until_its_last_try_fails_the_tree(tracked: Any) -> None:
    with tracked.spout.emit(message_id="m") as root:
        record = with_anchors(FORMS["Lambda"], root.headers()["Acker-Anchors"])
    for attempt in (1, 2):
        error = FailTuple("no such card") if attempt == 2 else ValueError("not yet")
        try:
            with tracked.acker.receive(headers_of(record), component="charge", on_error="leave_open"):
                raise error
        except ValueError:
            assert list(tracked.spout.completions(until=0)) == []
    [completion] = tracked.spout.completions(until=0)
    assert (completion.outcome, completion.reason) == ("failed", "no such card")
