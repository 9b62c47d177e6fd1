"""Which requests of web pages are refused without keys, and which names the acker answers to."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from acker_service.host_names import read_hosts, read_origins
from acker_service.http import origins
from acker_service.http.load_shedding import FLOW
from acker_service.http.origins import OriginCheck, OriginPolicy
from acker_service.metrics.metrics import Form, Metrics
from starlette.datastructures import State

LOOPBACK = OriginPolicy(is_loopback=True)
NAMED = OriginPolicy(
    is_loopback=True, hosts=read_hosts("acker.example, .internal"), origins=read_origins("https://ops.example")
)
OPEN = OriginPolicy(is_loopback=False)
OPEN_NAMED = OriginPolicy(is_loopback=False, hosts=read_hosts("acker, acker.example"))
BATCH, PAGE = "/v1/topologies/orders/batch", "/ui/app.js"
HOSTS, ORIGINS = "ACKER_ALLOWED_HOSTS", "ACKER_ALLOWED_ORIGINS"
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request, and the setting that its refusal names; None: it is taken."""

    says: str
    refused: str | None = None
    policy: OriginPolicy = LOOPBACK
    method: str = "POST"
    path: str = BATCH
    host: str | None = "127.0.0.1:8700"
    headers: dict[str, str] = field(default_factory=dict)


def origin(value: str, **more: str) -> dict[str, str]:
    return {"origin": value, **{name.replace("_", "-"): text for name, text in more.items()}}


def site(value: str, **more: str) -> dict[str, str]:
    return {"sec-fetch-site": value, **{name.replace("_", "-"): text for name, text in more.items()}}


def link(**changed: str) -> dict[str, str]:
    return LINK | {name.replace("_", "-"): text for name, text in changed.items()}


CASES = [
    # Host, on a listener that only programs of this machine reach
    *(
        Case(says=f"the loopback name {host}", host=host)
        for host in ("localhost", "LOCALHOST.:8700", "a.localhost:1", "127.0.0.1", "127.0.0.9:80", "[::1]:8700")
    ),
    Case(says="HTTP/1.0 without Host", host=None),
    *(
        Case(says=f"another name: {host!r}", host=host, refused=HOSTS)
        for host in ("evil.example:8700", "acker", "localhost.evil.example", "10.0.0.7:8700", "0.0.0.0:8700",
                     "[fe80::1]:8700", "127.1", "2130706433", "", "a b", "evil.example@localhost", "localhost,evil")
    ),
    *(Case(says=f"another name at {path}", path=path, method="GET", host="evil.example") for path in
      ("/livez", "/readyz", "/metrics")),
    *(Case(says=f"another name at {path}", path=path, method="GET", host="evil.example", refused=HOSTS) for path in
      ("/", "/ui/", "/openapi.json", "/v1/status", "/livez/", "/metrics/x")),
    Case(says="a name that is allowed", policy=NAMED, host="Acker.Example:443"),
    Case(says="a name below one that is allowed", policy=NAMED, host="a.b.internal"),
    Case(says="a name beside those that are allowed", policy=NAMED, host="evil.example", refused=HOSTS),
    Case(says="a loopback name beside those that are allowed", policy=NAMED, host="localhost"),
    Case(says="an address beside those that are allowed", policy=NAMED, host="10.0.0.7", refused=HOSTS),
    # Host, on a listener that others reach
    *(Case(says=f"any name where none is named: {host!r}", policy=OPEN, host=host) for host in
      ("acker:8700", "10.0.0.7", "evil.example", "", "a b")),
    *(Case(says=f"a name of the acker: {host}", policy=OPEN_NAMED, host=host) for host in
      ("acker:8700", "acker.example", "localhost:9000", "10.0.0.7:8700", "[fd00::7]:8700")),
    *(Case(says=f"no name of the acker: {host!r}", policy=OPEN_NAMED, host=host, refused=HOSTS) for host in
      ("evil.example:8700", "acker.evil.example", "2130706433", "", "a b")),
    # Origin
    Case(says="the acker's own page", headers=origin("http://127.0.0.1:8700", sec_fetch_site="same-origin")),
    Case(says="the acker's own page, by a name", host="LocalHost:8700", headers=origin("http://localhost:8700")),
    Case(says="IPv6", host="[::1]:8700", headers=origin("http://[::1]:8700")),
    Case(says="port 80 left out of Host", host="localhost", headers=origin("http://localhost:80")),
    Case(says="port 80 left out of Origin", host="localhost:80", headers=origin("http://localhost")),
    Case(says="https in front of the acker", policy=NAMED, host="acker.example",
         headers=origin("https://acker.example")),
    Case(says="https in front of the acker, with its port", policy=NAMED, host="acker.example:443",
         headers=origin("https://acker.example")),
    Case(says="another port", headers=origin("http://127.0.0.1:3000"), refused=ORIGINS),
    Case(says="the default port of the other scheme", host="localhost:80", headers=origin("https://localhost"),
         refused=ORIGINS),
    Case(says="another name of the same machine", headers=origin("http://localhost:8700"), refused=ORIGINS),
    Case(says="another site", headers=origin("https://evil.example"), refused=ORIGINS),
    Case(says="no origin of its own", headers=origin("null"), refused=ORIGINS),
    Case(says="an origin that is none", headers=origin("127.0.0.1:8700"), refused=ORIGINS),
    Case(says="an empty origin", headers=origin(""), refused=ORIGINS),
    Case(says="an origin and no Host", host=None, headers=origin("http://localhost"), refused=ORIGINS),
    Case(says="another site, whatever Sec-Fetch-Site says", refused=ORIGINS,
         headers=origin("https://evil.example", sec_fetch_site="same-origin")),
    Case(says="another site, to probes as well", path="/readyz", method="GET", refused=ORIGINS,
         headers=origin("https://evil.example")),
    Case(says="another site, though a proxy says what the browser asked for", refused=ORIGINS,
         headers=origin("https://acker.example", x_forwarded_host="acker.example", forwarded="host=acker.example")),
    Case(says="another site, to an open acker", policy=OPEN, host="acker:8700", refused=ORIGINS,
         headers=origin("https://evil.example")),
    Case(says="an origin that is allowed", policy=NAMED,
         headers=origin("https://ops.example", sec_fetch_site="cross-site")),
    Case(says="an origin that is allowed, with its port", policy=NAMED, headers=origin("https://ops.example:443")),
    Case(says="an allowed host by http", policy=NAMED, headers=origin("http://ops.example"), refused=ORIGINS),
    Case(says="an origin that is allowed, under a name that is not", policy=NAMED, host="evil.example",
         headers=origin("https://ops.example"), refused=HOSTS),
    # Sec-Fetch-Site
    Case(says="an address that somebody typed", method="GET", path="/v1/status", headers=site("none")),
    Case(says="the page's own request", method="GET", path=PAGE, headers=site("same-origin")),
    *(Case(says=f"{value}", headers=site(value), refused=ORIGINS) for value in
      ("cross-site", "same-site", "another", "")),
    *(Case(says=f"an image of another site: {path}", method="GET", path=path, headers=site("cross-site"),
           refused=ORIGINS) for path in ("/v1/topologies", "/metrics", PAGE)),
    *(Case(says=f"a link to the page: {path}", method="GET", path=path, headers=link()) for path in
      ("/", "/ui", "/ui/", "/ui/runbook.md")),
    Case(says="a link to the page from another port", method="GET", path="/ui/",
         headers=link(sec_fetch_site="same-site")),
    Case(says="the head of the page", method="HEAD", path="/ui/", headers=link()),
    Case(says="a link to anything else", method="GET", path="/v1/status", headers=link(), refused=ORIGINS),
    Case(says="a link to a neighbour of the page", method="GET", path="/uix/", headers=link(), refused=ORIGINS),
    Case(says="a form that is sent to the page", path="/ui/", headers=link(), refused=ORIGINS),
    Case(says="the page in a frame", method="GET", path="/ui/", headers=link(sec_fetch_dest="iframe"),
         refused=ORIGINS),
    Case(says="the page as a script's data", method="GET", path="/ui/", headers=link(sec_fetch_mode="no-cors"),
         refused=ORIGINS),
    Case(says="a link under another name", method="GET", path="/ui/", host="evil.example", headers=link(),
         refused=HOSTS),
    # no browser
    Case(says="curl", headers={"user-agent": "curl/8", "accept": "*/*"}),
    Case(says="curl to an open acker", policy=OPEN, host="acker.example:8700", headers={"user-agent": "curl/8"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_a_request_is_taken_or_refused_with_the_setting_that_would_allow_it(case: Case) -> None:
    headers = {name.encode(): value.encode() for name, value in case.headers.items()}
    if case.host is not None:
        headers[b"host"] = case.host.encode()
    denial = case.policy.denial(case.method, case.path, headers)
    named = None if denial is None else [name for name in (HOSTS, ORIGINS) if name in denial]
    assert named == (None if case.refused is None else [case.refused]), denial
    assert denial is None or "ACKER_KEYS_FILE" in denial


def test_a_refusal_shows_what_was_sent_and_no_more_of_it_than_a_line_holds() -> None:
    long = b"http://" + b"x" * 60_000
    denial = LOOPBACK.denial("POST", BATCH, {b"host": b"127.0.0.1:8700", b"origin": long})
    assert denial is not None
    assert "'http://xxx" in denial
    assert "127.0.0.1:8700" in denial
    assert len(denial) < 300


def scope(host: bytes = b"localhost:8700", *headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": BATCH, "headers": [(b"host", host), *headers], **more}


def check(*, keys: tuple[()] | None = None, metrics: Metrics | None = None) -> OriginCheck:
    return OriginCheck(LOOPBACK, State({"keys": keys}), (metrics or Metrics()).http)


EVIL = (b"origin", b"https://evil.example")


def test_where_keys_are_required_nothing_is_refused_here() -> None:
    assert check(keys=()).refusal(scope(b"evil.example", EVIL, (b"sec-fetch-site", b"cross-site"))) is None


def test_keys_that_are_required_later_count_from_then_on() -> None:
    state = State({"keys": None})
    checking = OriginCheck(LOOPBACK, state, Metrics().http)
    assert checking.refusal(scope(b"evil.example")) is not None
    state.keys = ()
    assert checking.refusal(scope(b"evil.example")) is None


def test_a_host_that_is_remembered_excuses_no_page_and_no_other_host() -> None:
    checking = check()
    for _ in range(2):
        assert checking.refusal(scope()) is None
        assert checking.refusal(scope(b"localhost:8700", EVIL)) is not None
        assert checking.refusal(scope(b"localhost:8700", (b"sec-fetch-site", b"cross-site"))) is not None
        assert checking.refusal(scope(b"evil.example")) is not None
        assert checking.refusal({**scope(), "headers": []}) is None
        assert checking.refusal(scope(b"")) is not None


def test_a_host_that_only_probes_may_name_is_not_remembered() -> None:
    checking = check()
    assert checking.refusal(scope(b"evil.example", path="/livez")) is None
    assert checking.refusal(scope(b"evil.example")) is not None


def test_the_first_header_of_each_name_counts() -> None:
    checking = check()
    assert checking.refusal(scope(b"localhost", (b"host", b"evil.example"))) is None
    assert checking.refusal(scope(b"evil.example", (b"host", b"localhost"))) is not None
    assert checking.refusal(scope(b"localhost", EVIL, (b"origin", b"http://localhost"))) is not None


def test_hosts_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "MAX_HOSTS", 3)
    checking = check()
    for port in range(10):
        assert checking.refusal(scope(b"localhost:%d" % port)) is None
        assert len(checking._hosts) <= 3


@pytest.mark.parametrize("host", ["a." * 150 + "localhost", "localhost:" + "0" * 60_000, "127.0.0.1" + " " * 300])
def test_a_long_host_is_answered_alike_each_time_and_not_remembered(host: str) -> None:
    checking = check()
    answers = [checking.refusal(scope(host.encode())) for _ in range(2)]
    assert [answer is None for answer in answers] == [LOOPBACK.answers_to(host)] * 2
    assert not checking._hosts


def test_an_open_acker_remembers_no_long_host() -> None:
    checking = OriginCheck(OPEN, State({"keys": None}), Metrics().http)
    for length in (255, 256, 60_000):
        assert checking.refusal(scope(b"a" * length)) is None
    assert {len(host or b"") for host in checking._hosts} == {255}


class Full:
    """The flow control of a client that has yet to read an answer."""

    write_paused = True

    async def drain(self) -> None:
        self.write_paused = False


@pytest.mark.anyio
@pytest.mark.parametrize("flow", [None, Full()])
async def test_a_refusal_is_a_problem_that_is_counted_and_waits_for_a_client_that_does_not_read(
    flow: Full | None,
) -> None:
    metrics, sent = Metrics(), list[Any]()
    checking, refused = check(metrics=metrics), scope(b"evil.example", **({} if flow is None else {FLOW: flow}))
    error = checking.refusal(refused)
    assert error is not None

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the body is not needed")

    await checking.refuse(error, refused, receive, send, route="/somewhere")
    assert sent[0]["status"] == 403
    assert b'"code":"forbidden_origin"' in sent[1]["body"]
    assert b'"retryable":false' in sent[1]["body"]
    assert flow is None or not flow.write_paused
    lines = metrics.write(Form.TEXT, None).decode().splitlines()
    assert 'acker_problems_total{code="forbidden_origin"} 1.0' in lines
    assert 'acker_requests_total{method="POST",route="/somewhere",status="403"} 1.0' in lines
