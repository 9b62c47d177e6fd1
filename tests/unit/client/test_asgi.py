"""Tests how an application's answers end the tuples of its requests."""

import asyncio
import time
from contextlib import suppress

import httpx
import pytest
from acker_client import UsageError
from acker_client.integrations.asgi import RETRY_STATUSES, SCOPE_KEY, AckerMiddleware
from acker_client.integrations.httpx import ainject_request
from acker_client.propagate import sign
from acker_protocol.anchors_signature import write_signature
from acker_protocol.operations import Outcome
from acker_protocol.states import Finished

pytestmark = pytest.mark.anyio


class Application:
    """Answers as its parts say, after what it is told to do with its scope."""

    def __init__(self, status=200, *, parts=(b"done",), whole=True, do=None) -> None:
        self.status = status
        self.parts = parts
        self.whole = whole
        self.do = do
        self.scopes = []

    async def __call__(self, scope, _, send):
        self.scopes.append(scope)
        if self.do is not None:
            await self.do(scope)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if self.whole:
            await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def headers(async_acker):
    """A message of one root, on its way to one consumer."""
    async with async_acker.shared_spout("orders").emit(message_id="42") as root:
        return root.headers("bill")


@pytest.fixture
def ask(async_acker, headers):
    """Send the message to an application behind the middleware."""

    async def asked(application, **options) -> httpx.Response:
        served = AckerMiddleware(application, acker=async_acker, component="billing", **options)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=served), base_url="http://app") as http:
            return await http.post("/", headers=headers)

    return asked


def outcome(service) -> Outcome | None:
    [state] = service.roots.values()
    return state.outcome if isinstance(state, Finished) else None


@pytest.mark.parametrize("status", [200, 201, 204, 304, 400, 404, 409, 422])
async def test_an_answer_acks_the_tuple_also_one_that_refuses(service, ask, status):
    assert (await ask(Application(status))).status_code == status
    assert outcome(service) is Outcome.ACKED
    [ack] = service.bodies("ack")
    assert ack["component"] == "billing"


@pytest.mark.parametrize("status", [500, 502, 503, 599])
async def test_an_answer_of_failure_fails_the_tree(service, ask, status):
    assert (await ask(Application(status))).status_code == status
    assert outcome(service) is Outcome.FAILED
    assert [(fail["reason"], fail["component"]) for fail in service.bodies("fail")] == [
        (f"answered {status}", "billing")
    ]


@pytest.mark.parametrize("status", sorted(RETRY_STATUSES))
async def test_an_answer_after_which_the_request_comes_again_leaves_the_tuple_open(service, ask, status):
    assert (await ask(Application(status))).status_code == status
    assert len(service.writes()) == 1
    await ask(Application())
    assert outcome(service) is Outcome.ACKED


async def test_an_exception_fails_the_tree_with_its_text_and_comes_through(service, ask):
    async def do(scope):
        raise ValueError("no such card")

    with pytest.raises(ValueError, match="no such card"):
        await ask(Application(do=do))
    assert service.bodies("fail")[0]["reason"] == "no such card"


async def test_an_exception_behind_the_answer_fails_the_tree(service, ask):
    async def application(scope, receive, send):
        await Application()(scope, receive, send)
        raise ValueError("in the background")

    with pytest.raises(ValueError, match="in the background"):
        await ask(application)
    assert outcome(service) is Outcome.FAILED


@pytest.mark.parametrize("application", [Application(whole=False), Application(parts=(), whole=False)])
async def test_an_answer_that_breaks_off_fails_the_tree(service, ask, application):
    with pytest.raises(AssertionError):  # httpx's own, for an application that ends in the midst
        await ask(application)
    assert service.bodies("fail")[0]["reason"] == "broke off its answer"


async def test_an_application_that_answers_nothing_fails_the_tree(service, ask):
    async def application(scope, receive, send):
        pass

    with pytest.raises(AssertionError):  # httpx's own
        await ask(application)
    assert outcome(service) is Outcome.FAILED


async def raises(scope, receive, send):
    raise ValueError


@pytest.mark.parametrize("application", [Application(503), Application(whole=False), raises])
async def test_a_failure_left_open_sends_nothing_and_the_request_sent_again_completes_the_tree(
    service, ask, application
):
    with suppress(AssertionError, ValueError):  # of httpx, for an answer that breaks off, and of the application
        await ask(application, on_error="leave_open")
    assert len(service.writes()) == 1
    await ask(Application(), on_error="leave_open")
    assert outcome(service) is Outcome.ACKED


async def test_a_cancelled_request_sends_nothing(service, ask):
    async def do(scope):
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ask(Application(do=do))
    assert len(service.writes()) == 1


async def test_the_ack_waits_for_what_comes_behind_the_answer(service, ask):
    seen = []

    async def application(scope, receive, send):
        await Application()(scope, receive, send)
        seen.append(outcome(service))

    await ask(application)
    assert (seen, outcome(service)) == ([None], Outcome.ACKED)


async def test_requests_that_the_application_sends_are_children(service, ask, async_acker):
    async def do(scope):
        hooks = {"request": [ainject_request]}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=peer), event_hooks=hooks) as http:
            await http.post("http://peer/")

    peer = Application()
    await ask(Application(do=do))
    assert outcome(service) is None
    child = async_acker.receive(peer.scopes[0]["headers"], component="peer")
    await async_acker.ack(child)
    assert outcome(service) is Outcome.ACKED


async def test_the_application_may_end_the_tuple_by_itself(service, ask, async_acker):
    async def do(scope):
        await async_acker.fail(scope[SCOPE_KEY], reason="declined")

    await ask(Application(do=do))
    assert service.writes("ack") == []
    assert [fail["reason"] for fail in service.bodies("fail")] == ["declined"]


async def test_a_middleware_within_another_leaves_the_tuple_to_it(service, ask, async_acker):
    inner = AckerMiddleware(Application(503), acker=async_acker, component="inner")
    await ask(inner)
    assert [fail["component"] for fail in service.bodies("fail")] == ["billing"]


async def test_what_the_application_writes_into_its_scope_is_seen_by_middleware_around(async_acker, headers):
    async def do(scope):
        scope["route"] = "/found"

    async def around(scope, receive, send):
        await AckerMiddleware(Application(do=do), acker=async_acker, component="billing")(scope, receive, send)
        seen.append(scope["route"])

    seen: list[str] = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=around), base_url="http://app") as http:
        await http.post("/", headers=headers)
    assert seen == ["/found"]


async def test_a_request_without_anchors_is_not_tracked(async_acker, service):
    served = AckerMiddleware(Application(503), acker=async_acker, component="billing")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=served), base_url="http://app") as http:
        assert (await http.post("/")).status_code == 503
    assert service.requests == []


@pytest.mark.parametrize("value", ["nonsense", "00 other 00000000000000aa-00000000000000bb"])
async def test_a_header_that_cannot_be_read_is_answered_400_and_the_application_is_not_called(async_acker, value):
    application = Application()
    served = AckerMiddleware(application, acker=async_acker, component="billing")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=served), base_url="http://app") as http:
        answer = await http.post("/", headers={"Acker-Anchors": value})
    assert (answer.status_code, application.scopes) == (400, [])
    assert answer.text.startswith("Acker-Anchors")


async def test_other_scopes_than_http_pass(async_acker):
    application = Application()
    served = AckerMiddleware(application, acker=async_acker, component="billing")
    sent = []

    async def send(event):
        sent.append(event)

    scope = {"type": "websocket", "headers": [(b"acker-anchors", b"nonsense")]}
    await served(scope, None, send)
    assert application.scopes[0] is scope
    assert sent


@pytest.mark.parametrize("wrong", [{"component": "a b"}, {"component": "billing", "on_error": "ignore"}])
async def test_what_is_no_component_or_no_word_for_errors_is_reported_at_the_start(async_acker, wrong):
    with pytest.raises(UsageError):
        AckerMiddleware(Application(), acker=async_acker, **wrong)


SECRET = "32 random characters, from a file"


@pytest.fixture
def post(async_acker):
    """Send a request to an application behind the middleware."""

    async def posted(application, headers, **options) -> httpx.Response:
        served = AckerMiddleware(application, acker=async_acker, component="billing", **options)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=served), base_url="http://app") as http:
            return await http.post("/", headers=headers)

    return posted


async def test_anchors_that_a_holder_of_the_secret_signed_are_taken(service, headers, post):
    answer = await post(Application(), sign(headers, secret=SECRET), secret=SECRET)
    assert (answer.status_code, outcome(service)) == (200, Outcome.ACKED)


async def test_of_several_secrets_any_is_accepted(service, headers, post):
    secrets = ["a new secret of 16 or more", SECRET]
    assert (await post(Application(), sign(headers, secret=SECRET), secret=secrets)).status_code == 200
    assert outcome(service) is Outcome.ACKED


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (None, "needs one Acker-Anchors-Signature here, and has 0"),
        ("nonsense", "must be 00, a time in Unix seconds and 64 hex digits"),
        (f"00 1790000000 {64 * 'a'}", "another secret, or for other anchors"),
        ("another secret of 16 or more", "another secret, or for other anchors"),
    ],
)
@pytest.mark.parametrize("status", [200, 503])
async def test_without_proof_a_request_does_nothing_to_its_root_and_is_answered_403(
    service, headers, post, proof, words, status
):
    application, before = Application(status), len(service.writes())
    if proof is not None and " of " in proof:
        headers = sign(headers, secret=proof)
    elif proof is not None:
        headers = headers | {"Acker-Anchors-Signature": proof}
    answer = await post(application, headers, secret=SECRET)
    assert (answer.status_code, application.scopes, len(service.writes()), outcome(service)) == (403, [], before, None)
    assert words in answer.text


@pytest.mark.parametrize("off_s", [-400, 400])
async def test_proof_of_another_time_is_answered_403(headers, post, off_s):
    [anchors] = headers.values()
    signature = write_signature([SECRET.encode()], anchors, now_s=time.time() + off_s)
    answer = await post(Application(), headers | {"Acker-Anchors-Signature": signature}, secret=SECRET)
    assert (answer.status_code, answer.text) == (403, "Acker-Anchors-Signature is more than 300 s from now")


def signed_late(headers):
    [anchors] = headers.values()
    return headers | {"Acker-Anchors-Signature": write_signature([SECRET.encode()], anchors, now_s=time.time() - 400)}


@pytest.mark.parametrize("outer_secret", [None, "of the middleware around it"])
@pytest.mark.parametrize(
    "prove",
    [
        lambda headers: headers,
        lambda headers: headers | {"Acker-Anchors-Signature": "nonsense"},
        lambda headers: sign(headers, secret="another secret of 16 or more"),
        lambda headers: sign(headers, secret="of the middleware around it"),
        signed_late,
    ],
    ids=["none", "nonsense", "another", "of the outer one", "late"],
)
async def test_a_middleware_within_another_asks_for_proof_of_its_own_secret(
    async_acker, headers, post, outer_secret, prove
):
    application = Application()
    inner = AckerMiddleware(application, acker=async_acker, component="inner", secret=SECRET)
    answer = await post(inner, prove(headers), secret=outer_secret)
    assert (answer.status_code, application.scopes) == (403, [])


async def test_a_middleware_within_another_takes_proof_and_what_needs_none_and_leaves_the_tuple_to_it(
    service, async_acker, headers, post
):
    inner = AckerMiddleware(
        Application(503), acker=async_acker, component="inner", secret=["a newer one, of 16", SECRET]
    )
    within_two = AckerMiddleware(inner, acker=async_acker, component="between")
    assert (await post(within_two, {})).status_code == 503
    assert service.bodies("fail") == []
    assert (await post(within_two, sign(headers, secret=SECRET))).status_code == 503
    assert [fail["component"] for fail in service.bodies("fail")] == ["billing"]


async def test_the_name_that_wsgi_has_for_the_header_goes_around_nothing(service, post):
    forged = {"HTTP_ACKER_ANCHORS": "00 default 00000000000000aa-00000000000000bb"}
    for options in ({}, {"secret": SECRET}):
        assert (await post(Application(503), forged, **options)).status_code == 503
    assert service.requests == []


async def test_a_request_without_anchors_needs_no_proof(service, post):
    assert (await post(Application(503), {}, secret=SECRET)).status_code == 503
    assert service.requests == []


async def test_signed_anchors_of_another_topology_are_answered_400(post):
    headers = {"Acker-Anchors": "00 other 00000000000000aa-00000000000000bb"}
    assert (await post(Application(), sign(headers, secret=SECRET), secret=SECRET)).status_code == 400


@pytest.mark.parametrize("secret", ["", "short", [], [SECRET, "short"], SECRET.encode()])
async def test_a_secret_that_can_be_guessed_is_reported_at_the_start(async_acker, secret):
    with pytest.raises(UsageError, match="secret"):
        AckerMiddleware(Application(), acker=async_acker, component="billing", secret=secret)
