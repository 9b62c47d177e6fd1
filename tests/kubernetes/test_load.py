"""The load knows what is lost, early or wrong, and counts a request that fails once, however often it is sent again."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.kubernetes import calls, figures, receiver
from tests.kubernetes.calls import Account, Caller, Failure, HttpxLink, Link, RawLink
from tests.kubernetes.figures import Cost
from tests.kubernetes.load import Load


@pytest.fixture
def load() -> Load:
    """A load that has sent the ack of a root, as of its second 5."""
    load = Load(url="http://127.0.0.1", topology="some")
    load._sent["a"] = 5.0
    load.acked.add("a")
    return load


def test_a_root_that_was_acked_and_of_which_nobody_was_told_is_lost(load: Load) -> None:
    assert load.lost() == ["a"]
    load._note("a", "acked", 6.0)
    assert (load.lost(), load.wrong()) == ([], [])


@pytest.mark.parametrize(("root", "outcome", "at"), [("a", "acked", 4.0), ("a", "timed_out", 6.0), ("b", "acked", 6.0)])
def test_a_completion_is_wrong_if_it_is_early_or_of_another_outcome_or_of_a_root_that_nobody_acked(
    load: Load, root: str, outcome: str, at: float
) -> None:
    load._note(root, outcome, at)
    assert load.wrong() == [(root, outcome)]


@pytest.fixture
def refusing() -> Iterator[str]:
    """A server that refuses every request with a key that it has not seen."""
    asked: set[str] = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            key = self.headers["Idempotency-Key"]
            refused = key not in asked
            asked.add(key)
            body = b'{"code": "store_unavailable", "retryable": true}' if refused else b'{"state": "pending"}'
            self.send_response(503 if refused else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the standard library
            """Write nothing."""

    with serving(Handler) as url:
        yield url


@contextlib.contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server for as long as the block runs; yields its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", ["fresh", "kept", "httpx"])
def test_a_request_that_fails_is_sent_again_with_its_key_and_counts_once(
    refusing: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(calls, "AGAIN_S", 0.0)
    link: Link = HttpxLink(refusing) if kind == "httpx" else RawLink(refusing, keeps=kind == "kept")
    account = Account()
    answer = Caller(kind=kind, link=link, account=account).ask("POST", "/some", {})
    link.close()
    assert answer == {"state": "pending"}
    assert (account.requests[kind], account.failed(), account.unanswered) == (1, {kind: 1}, [])
    [failure] = account.failures[kind]
    assert (failure.status, failure.code, failure.retryable) == (503, "store_unavailable", True)
    assert account.again_s > 0


def test_the_receiver_tells_a_load_of_its_own_roots_alone() -> None:
    def body(root: str) -> str:
        return json.dumps({"data": {"completions": [{"root_id": root, "outcome": "acked"}]}})

    with serving(receiver.Handler) as url, httpx.Client(base_url=url, trust_env=False) as http:
        for load, root in (("/first", "a"), ("/second", "b"), ("/second", "c")):
            assert http.post(load, content=body(root)).is_success
        told = http.get("/second").json()
    assert [(root, outcome) for root, outcome, _ in told] == [("b", "acked"), ("c", "acked")]


@pytest.mark.parametrize("rows_before", ["", "| old |\n"])
def test_figures_of_a_fault_replace_those_of_its_last_run_in_the_file_and_on_the_page(
    load: Load, tmp_path: Path, rows_before: str
) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"before\n\n{Cost.HEAD}{rows_before}\nafter\n")
    load.account.requests.update(kept=1200, httpx=3)
    load.account.fail("kept", Failure(at=5.0, request="POST /some", status=0, code="reset", retryable=True))
    load.account.again_s = 0.52
    for fault in ("a", "b", "a"):
        figures.write(Cost, [figures.cost(fault, load, 3.2)], file, page)
    rows = [f"| {fault} | 0 of 0 | 0 of 3 | 1 of 1,200 | 0 of 0 | 0 of 0 | 0.5 s | 1 | 3 s |\n" for fault in "ab"]
    assert page.read_text() == f"before\n\n{Cost.HEAD}{''.join(rows)}\nafter\n"
    assert figures.table(Cost, figures.read(Cost, file)) == Cost.HEAD + "".join(rows)
