"""What the README says to paste works when pasted."""

import json
from pathlib import Path

import pytest

from tests.support.examples import outputs
from tests.support.pages import fences, groups
from tests.support.servers import acker_serve

README = Path(__file__).parent.parent / "README.md"


MARK = "<!-- tested by tests/test_readme.py -->"


def pasted() -> str:
    """The shell session of the README."""
    blocks = [fence for fence in fences(README.read_text()) if fence.mark == MARK]
    assert {block.language for block in blocks} == {"sh"}
    return "\n".join(f"```sh\n{block.code}\n```" for block in blocks)


@pytest.mark.parametrize("shell", ["sh", "zsh"])
def test_the_session_with_curl_works_when_pasted(tmp_path: Path, shell: str) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        [printed] = outputs(groups(pasted()), shell, url=acker.url, folder=tmp_path)
    answers = [json.loads(line) for line in printed.splitlines() if line]
    assert [answer.get("state") for answer in answers[:5]] == ["pending", "pending", "pending", "pending", "acked"]
    assert answers[2]["outstanding"] == 2
    assert [(told["outcome"], told["message_id"]) for told in answers[5]["completions"]] == [("acked", "42")]
    assert answers[6] == {"released": 1}
