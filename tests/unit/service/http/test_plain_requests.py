"""Tests that what is read as a plain request is what the parser of HTTP reads, and that all else is left to that."""

import random
from typing import Any

import httptools
import pytest
from acker_service.http import plain_requests
from acker_service.http.operations import ROUTES, Address
from acker_service.http.plain_requests import PlainRequests
from hypothesis import given, settings
from hypothesis import strategies as st

PATH = b"/v1/topologies/default/ack"
BODY = b'{"root_id":"1","ack_val":"2"}'
HEAD = b"POST %b HTTP/1.1\r\nHost: acker:8700\r\nContent-Type: application/json\r\n" % PATH
KEYED = b"Idempotency-Key: k1\r\nAuthorization: Bearer s3cret\r\nX-Request-Id: r 1\r\n"


def find(path: str) -> Address | None:
    name, verb = path.split("/")[-2:] if path.count("/") == 4 else ("", "")
    return Address(path=path, route=ROUTES[verb], topology=name, is_name=True) if verb in ROUTES else None


@pytest.fixture
def plain() -> PlainRequests:
    return PlainRequests(find)


def post(*lines: bytes, body: bytes = BODY, head: bytes = HEAD) -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return head + length + b"".join(b"%b\r\n" % line for line in lines) + b"\r\n" + body


class Parsed:
    """What the parser of HTTP makes of bytes; ``ends`` has the number of requests that were whole at each end."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.ends = b"", b"", 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_begun_another = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.has_begun_another = self.ends > 0

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ends += 1


def assert_parsed_alike(plain: PlainRequests, data: bytes) -> bool:
    """Assert that a request which is read as a plain one is what the parser reads; return whether it is one."""
    request = plain.read(data)
    if request is None:
        return False
    parsed = Parsed(data)
    assert (parsed.parser.get_method(), parsed.parser.get_http_version()) == (b"POST", "1.1")
    assert parsed.parser.should_keep_alive()
    assert not parsed.parser.should_upgrade()
    url = httptools.parse_url(parsed.url)
    assert (url.path, url.query or b"") == (request.address.path.encode(), request.query)
    assert parsed.headers == list(request.headers.items())
    assert (parsed.body, parsed.ends, parsed.has_begun_another) == (request.body, 1, False)
    return True


@pytest.mark.parametrize("query", [b"", b"?results=all", b"?", b"?results=exceptions&a-b_c=1"])
@pytest.mark.parametrize("body", [b"", BODY, b"\r\n\r\n", b"x" * 100_000])
def test_a_plain_request_is_read_as_the_parser_reads_it(plain: PlainRequests, query: bytes, body: bytes) -> None:
    head = HEAD.replace(PATH, PATH + query) + KEYED
    for _ in range(2):  # its lines are known the second time
        assert assert_parsed_alike(plain, post(b"Connection: keep-alive", b"Tab:\t x  y", head=head, body=body))


NOT_PLAIN = {
    "another method": post().replace(b"POST", b"PUT "),
    "another version": post().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another address": post().replace(PATH, b"/v1/topologies"),
    "an escaped address": post().replace(b"default", b"def%61ult"),
    "a whole address": post().replace(PATH, b"http://acker" + PATH),
    "chunks": post(b"Transfer-Encoding: chunked"),
    "leave to send": post(b"Expect: 100-continue"),
    "another protocol": post(b"Connection: upgrade", b"Upgrade: h2c"),
    "the end of the connection": post(b"Connection: close"),
    "trailers": post(b"Trailer: a"),
    "no length": HEAD + b"\r\n" + BODY,
    "two lengths": post(b"Content-Length: %d" % len(BODY)),
    "a signed length": post().replace(b"Length: ", b"Length: +"),
    "a length with a comma": post().replace(b"Length: 29", b"Length: 29, 29"),
    "a long length": post().replace(b"Length: ", b"Length: " + b"0" * 30),
    "a header that is there twice": post(b"a: 1", b"A: 2"),
    "a header without a name": post(b": 1"),
    "a header without a value": post(b"a:"),
    "a header without a colon": post(b"a"),
    "a space before the colon": post(b"a : 1"),
    "a folded header": post(b"a: 1", b" 2"),
    "a space behind the value": post(b"a: 1 "),
    "a control character": post(b"a: 1\x0b2"),
    "a bare carriage return": post(b"a: 1\rb: 2"),
    "a bare line feed": post(b"a: 1\nb: 2"),
    "a character beyond ASCII": post(b"a: \xe4"),
    "too many headers": post(*(b"a%d: 1" % number for number in range(plain_requests.MAX_LINES))),
    "a long head": post(b"a: " + b"x" * plain_requests.MAX_HEAD_BYTES),
    "an empty line first": b"\r\n" + post(),
    "a part of a head": post()[:40],
    "a part of a body": post()[:-1],
    "more than a body": post() + b"P",
    "two requests": post() * 2,
    "nothing": b"",
}


@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_parser(plain: PlainRequests, data: bytes) -> None:
    assert plain.read(post()) is not None
    assert plain.read(data) is None
    assert plain.read(data) is None


def test_a_request_line_is_no_header_and_a_header_no_request_line(plain: PlainRequests) -> None:
    line = HEAD.split(b"\r\n")[0]
    assert plain.read(post()) is not None
    assert plain.read(post(line)) is None
    assert plain.read(post(b"Accept: a")) is not None
    assert plain.read(post().replace(line, b"Accept: a")) is None


def test_lines_that_differ_in_each_request_push_out_no_others(plain: PlainRequests) -> None:
    """The lines of a key and of a trace would fill what is remembered, which is then forgotten as a whole."""
    for number in range(plain_requests.MAX_KNOWN + 10):
        own = (b"Idempotency-Key: k%d" % number, b"traceparent: t%d" % number, b"X-Request-Id: r%d" % number)
        request = plain.read(post(*own))
        assert request is not None
        assert request.headers[b"idempotency-key"] == b"k%d" % number
    assert set(plain._lines) == {b"Host: acker:8700", b"Content-Type: application/json", b"Content-Length: 29"}


def test_few_and_short_lines_are_remembered(plain: PlainRequests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_requests, "MAX_KNOWN", 10)
    for number in range(100):
        assert assert_parsed_alike(plain, post(b"Accept: %d" % number))
        assert assert_parsed_alike(plain, post(b"Long: %d" % number + b"x" * plain_requests.MAX_KNOWN_BYTES))
    assert len(plain._lines) <= 10
    assert max(map(len, plain._lines)) <= plain_requests.MAX_KNOWN_BYTES


pieces = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\x00", b"\xff", b"0", b"A", b"close", b"chunked", b","]
)


@given(seed=st.integers(0, 2**32), inserted=st.lists(pieces, max_size=3), removed=st.integers(0, 3))
@settings(max_examples=400, deadline=None)
def test_whatever_is_changed_in_it_is_read_as_the_parser_reads_it_or_left(
    seed: int, inserted: list[bytes], removed: int
) -> None:
    random_, data = random.Random(seed), bytearray(post(b"Accept: */*", head=HEAD + KEYED))
    for piece in inserted:
        at = random_.randrange(len(data))
        data[at:at] = piece
    for _ in range(removed):
        del data[random_.randrange(len(data))]
    plain = PlainRequests(find)
    for _ in range(2):
        assert_parsed_alike(plain, bytes(data))


def test_the_comparison_notices_a_header_that_the_parser_reads_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(self: Any, data: bytes) -> Any:
        request = read(self, data)
        assert request is not None
        request.headers = dict(reversed(request.headers.items()))
        return request

    read = PlainRequests.read
    monkeypatch.setattr(PlainRequests, "read", swapped)
    with pytest.raises(AssertionError):
        assert_parsed_alike(PlainRequests(find), post())
