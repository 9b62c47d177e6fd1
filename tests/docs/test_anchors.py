"""What the page about anchors says is what the packages do."""

import json
import re
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from acker_client import InvalidHeader
from acker_protocol import ids
from acker_protocol.anchors import MAX_ANCHORS, parse_anchors

from tests.conformance.test_vectors import vectors
from tests.support.pages import DOCS, LANGUAGES, languages
from tests.support.programs import needed

Answer = tuple[int, dict[str, str], str]
"""Status, headers and body."""

PATIENCE_S = 60

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


def test_the_vectors_of_the_clients_are_those_of_the_page() -> None:
    played = [(vector.do, vector.given, vector.expect) for vector in vectors()]
    headers = [
        (given["headers"][0][1], expect) for do, given, expect in played if do == "read_header" and given["headers"]
    ]
    accepted = {value for value, expect in headers if expect is not None}
    refused = {value for value, expect in headers if expect is None}
    assert {code(value) for value, *_ in rows("value | topology | anchors")} <= accepted
    assert {code(value) for value, _ in rows("value | because")} <= refused
    edges = {(*given.values(), expect) for do, given, expect in played if do == "derive_edge"}
    assert {tuple(map(code, vector)) for vector in rows("root id | parent edge | component | name | edge id")} <= edges
    digests = {(*given.values(), expect) for do, given, expect in played if do == "derive_from_digest"}
    assert {tuple(map(code, vector)) for vector in rows("root id | digest | edge id")} == digests


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


class Answers(ThreadingHTTPServer):
    """Answers requests in turn, the last answer again and again; keeps what came. None: no answer, the end."""

    daemon_threads = True

    def __init__(self, *planned: Answer | None) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.planned = list(planned)
        self.came: list[tuple[str | None, bytes]] = []


class Answering(BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append((self.headers["Idempotency-Key"], body))
        planned = self.server.planned[0] if len(self.server.planned) == 1 else self.server.planned.pop(0)
        if planned is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, text = planned
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(text))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def problem(status: int, *, retryable: bool, after: str | None = None) -> Answer:
    headers = {} if after is None else {"Retry-After": after}
    return status, headers, json.dumps({"code": "x", "status": status, "retryable": retryable})


TAKEN: Answer = (200, {}, '{"state": "pending"}')
AGAIN = {
    "429": [problem(429, retryable=True, after="1")],
    "503": [problem(503, retryable=True, after="1")],
    "a conflict that passes": [problem(409, retryable=True)],
    "500 and 502 of what stands in between": [(500, {}, ""), (502, {}, "<html>")],
    "429 without a problem": [(429, {"Retry-After": "1"}, "slow down")],
    "a Retry-After that is a date": [(503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "")],
    "a connection that ends": [None, None],
    "all of them": [None, problem(503, retryable=True), (504, {}, ""), problem(429, retryable=True)],
}
FOR_GOOD = {
    "422": problem(422, retryable=False),
    "503 that must not be sent again": problem(503, retryable=False, after="1"),
    "429 that must not be sent again": problem(429, retryable=False),
    "404 of what stands in between": (404, {}, "<html>"),
}


def write_by_javascript(
    folder: Path, server: Answers, *, limit_ms: str = "60_000"
) -> "subprocess.CompletedProcess[str]":
    """Send one ack as the page's bolt in JavaScript does, which gives up after a minute if no other limit is given."""
    source = PAGE[PAGE.index("import { createHmac") : PAGE.index("// The spout: a root with one edge")]
    source = source.replace("60_000", limit_ms).replace(
        "http://127.0.0.1:8700", f"http://127.0.0.1:{server.server_port}"
    )
    script = folder / "write.mjs"
    script.write_text(source + 'console.log(await write("ack", { root_id: "00000000000000a1" }));\n')
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        return subprocess.run(
            [needed("node"), str(script)], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    finally:
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("planned", AGAIN.values(), ids=AGAIN)
def test_the_bolt_in_javascript_sends_the_same_again_where_that_helps(
    tmp_path: Path, planned: list[Answer | None]
) -> None:
    with Answers(*planned, TAKEN) as server:
        ended = write_by_javascript(tmp_path, server)
    assert (ended.returncode, ended.stdout) == (0, '{"state": "pending"}\n'), ended.stderr
    assert len(server.came) == len(planned) + 1
    assert len(set(server.came)) == 1


@pytest.mark.parametrize("answer", FOR_GOOD.values(), ids=FOR_GOOD)
def test_the_bolt_in_javascript_gives_up_at_once_where_it_does_not(tmp_path: Path, answer: Answer) -> None:
    with Answers(answer) as server:
        ended = write_by_javascript(tmp_path, server)
    assert ended.returncode == 1
    assert answer[2] in ended.stderr
    assert len(server.came) == 1


@pytest.mark.parametrize("answer", [None, problem(429, retryable=True, after="1"), problem(503, retryable=True)])
def test_the_bolt_in_javascript_gives_up_after_its_time(tmp_path: Path, answer: Answer | None) -> None:
    with Answers(answer) as server:
        ended = write_by_javascript(tmp_path, server, limit_ms="5_000")
    assert ended.returncode == 1
    assert len(server.came) > 1


def test_the_bolt_in_javascript_waits_no_longer_than_retry_after_allows(tmp_path: Path) -> None:
    with Answers(problem(429, retryable=True, after="3600")) as server:
        ended = write_by_javascript(tmp_path, server)
    assert ended.returncode == 1
    assert len(server.came) == 1
