"""What the README says to paste works when pasted."""

import json
import re
from pathlib import Path

from tests.support.examples import outputs
from tests.support.pages import groups
from tests.support.servers import acker_serve

README = Path(__file__).parent.parent / "README.md"


def pasted() -> str:
    """The shell session of the README."""
    found = re.search(r"<!-- tested by tests/test_readme.py -->\n(```sh\n.*?```)", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_session_with_curl_works_when_pasted(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        [printed] = outputs(groups(pasted()), "sh", url=acker.url, folder=tmp_path)
    answers = [json.loads(line) for line in printed.splitlines() if line]
    assert [answer.get("state") for answer in answers[:5]] == ["pending", "pending", "pending", "pending", "acked"]
    assert answers[2]["outstanding"] == 2
    assert [(told["outcome"], told["message_id"]) for told in answers[5]["completions"]] == [("acked", "42")]
    assert answers[6] == {"released": 1}
