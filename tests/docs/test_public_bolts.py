"""What the page about public bolts says of the signature of anchors is what the packages do."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from acker_client import InvalidSignature
from acker_protocol.anchors_signature import MIN_SECRET_CHARACTERS, TOLERANCE_S, check_signature, secret_keys
from acker_protocol.anchors_signature import write_signature as write

from tests.support.pages import DOCS
from tests.support.programs import needed

PAGE = (DOCS / "public-bolts.md").read_text()
SECRET = "32 random characters, from a file"
ANCHORS = "00 orders 00000000000000a1-00000000000000b1"
NOW_S = 1_790_000_000


def rows(head: str) -> list[list[str]]:
    """The rows of the table with this head, without the ticks of code."""
    found = re.search(rf"\n\| {re.escape(head)} \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE)
    assert found is not None, head
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in found[1].splitlines()]


VECTORS = rows("secret | anchors | time | signature")
REFUSED = rows("signature | because")


@pytest.mark.parametrize(("secret", "anchors", "time", "signature"), VECTORS)
def test_anchors_are_signed_as_their_vector_says(secret: str, anchors: str, time: str, signature: str) -> None:
    assert write(secret_keys(secret), anchors, now_s=int(time)) == signature
    headers = {"Acker-Anchors": anchors, "Acker-Anchors-Signature": signature}
    check_signature(secret_keys(secret), headers, now_s=int(time))


@pytest.mark.parametrize(("signature", "because"), REFUSED)
def test_a_signature_is_refused_as_its_vector_says(signature: str, because: str) -> None:
    headers = {"Acker-Anchors": ANCHORS, "Acker-Anchors-Signature": signature}
    with pytest.raises(InvalidSignature):
        check_signature(secret_keys(SECRET), headers, now_s=NOW_S)


def test_a_signature_that_is_refused_for_its_time_is_good_at_another() -> None:
    late = [signature for signature, because in REFUSED if because.startswith(f"more than {TOLERANCE_S} seconds")]
    assert len(late) == 2
    for signature in late:
        headers = {"Acker-Anchors": ANCHORS, "Acker-Anchors-Signature": signature}
        check_signature(secret_keys(SECRET), headers, now_s=int(signature.split()[1]))


def test_the_receiver_in_javascript_accepts_and_refuses_as_the_vectors_say(tmp_path: Path) -> None:
    [function] = re.findall(r"^(import \{ createHmac, .*?^\}\n)", PAGE, re.MULTILINE | re.DOTALL)
    calls = [([secret], anchors, signature, int(time)) for secret, anchors, time, signature in VECTORS]
    calls += [([SECRET], ANCHORS, signature, NOW_S) for signature, _ in REFUSED]
    script = tmp_path / "vectors.mjs"
    script.write_text(f"{function}for (const call of {json.dumps(calls)}) console.log(proven(...call));\n")
    ran = subprocess.run([needed("node"), script], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["true"] * len(VECTORS) + ["false"] * len(REFUSED)


def test_the_page_names_the_bounds() -> None:
    assert f"A secret has at least {MIN_SECRET_CHARACTERS} characters" in PAGE
    assert f"refuses a time that is more than {TOLERANCE_S} seconds from\nnow" in PAGE
