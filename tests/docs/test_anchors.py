"""What the page about anchors says is what the packages do."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from acker_client import InvalidHeader
from acker_protocol import ids
from acker_protocol.anchors import MAX_ANCHORS, parse_anchors

from tests.support.pages import DOCS, LANGUAGES, languages
from tests.support.programs import needed

LISTED = "00 orders " + ",".join(f"00000000000000a1-{edge:016x}" for edge in range(1, MAX_ANCHORS + 1))
"""As many anchors as a header holds."""

MANY = f"{LISTED},00000000000000a1-00000000000000ff"

PAGE = (DOCS / "anchors.md").read_text()


def rows(head: str) -> list[list[str]]:
    """The rows of the table with this head; code cells as they are between their ticks."""
    _, found, behind = PAGE.partition(f"\n| {head} |\n")
    assert found, head
    lines = re.match(r"\|[-|]+\|\n((?:\|.*\n)+)", behind)
    assert lines is not None, head
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[1].splitlines()]


def code(cell: str) -> str:
    return cell.removeprefix("`").removesuffix("`")


@pytest.mark.parametrize(("value", "topology", "anchors"), rows("value | topology | anchors"))
def test_a_header_is_read_as_its_vector_says(value: str, topology: str, anchors: str) -> None:
    read = parse_anchors(code(value))
    assert read.topology == code(topology)
    assert [f"`{anchor.root_id:x}-{anchor.edge_id:x}`" for anchor in read.anchors] == anchors.split()
    assert read.headers() == {"Acker-Anchors": code(value)}


@pytest.mark.parametrize(("value", "because"), rows("value | because"))
def test_a_header_is_refused_as_its_vector_says(value: str, because: str) -> None:
    with pytest.raises(InvalidHeader):
        parse_anchors(code(value))


@pytest.mark.parametrize("vector", rows("root id | parent edge | component | name | edge id"))
def test_an_edge_id_is_derived_as_its_vector_says(vector: list[str]) -> None:
    root, parent, component, name, edge = map(code, vector)
    derived = ids.derive_edge(
        root_id=ids.parse_id(root), parent_edge=ids.parse_ack_val(parent), component=component, name=name
    )
    assert ids.format_id(derived) == edge


@pytest.mark.parametrize(("root", "digest", "edge"), rows("root id | digest | edge id"))
def test_a_digest_that_begins_with_zeros_is_digested_again_as_its_vector_says(
    root: str, digest: str, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hmac, made_up = ids._hmac, [bytes.fromhex(code(digest))]
    monkeypatch.setattr(ids, "_hmac", lambda key, text: made_up.pop() if made_up else hmac(key, text))
    derived = ids.derive_edge(root_id=ids.parse_id(code(root)), parent_edge=1, component="split", name="word-1")
    assert ids.format_id(derived) == code(edge)


def test_the_longest_header_has_the_length_that_the_page_tells() -> None:
    longest = LISTED.replace("orders", "x" * 128)
    parse_anchors(longest)
    assert f"**At most {MAX_ANCHORS} anchors**, {len(longest):,} bytes" in PAGE


def javascript(statements: str, folder: Path) -> list[str]:
    """Run statements behind the functions `parse` and `derive` of the page; give the lines they print."""
    [functions] = re.findall(r"^(import .*?)^async function write", PAGE, re.MULTILINE | re.DOTALL)
    script = folder / "vectors.mjs"
    script.write_text(f"{functions}\n{statements}")
    ran = subprocess.run([needed("node"), script], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


READ = """for (const [value, topology] of tried) {
  try { console.log(parse(value, topology).map(({ root, edge }) => `${root}-${edge}`).join()); }
  catch (fault) { console.log(fault.message); }
}"""


def test_the_bolt_in_javascript_reads_and_refuses_as_the_vectors_say(tmp_path: Path) -> None:
    well = [code(value) for value, *_ in rows("value | topology | anchors")]
    ill = [code(value) for value, _ in rows("value | because")]
    tried = [(value, value.split()[1]) for value in well] + [(value, "orders") for value in [*ill, MANY]]
    printed = javascript(f"const tried = {json.dumps(tried)};\n{READ}", tmp_path)
    assert printed == [*(value.split()[2] for value in well), *(f"wrong header: {value}" for value in [*ill, MANY])]


def test_the_bolt_in_javascript_derives_as_the_vectors_say(tmp_path: Path) -> None:
    vectors = [list(map(code, vector)) for vector in rows("root id | parent edge | component | name | edge id")]
    calls = (f"console.log(derive(...{json.dumps(vector[:4])}));" for vector in vectors)
    assert javascript("\n".join(calls), tmp_path) == [edge for *_, edge in vectors]


def test_there_is_a_bolt_in_every_language() -> None:
    assert languages(DOCS / "anchors.md") == list(LANGUAGES)
