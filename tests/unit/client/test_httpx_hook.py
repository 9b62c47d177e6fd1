"""Tests that requests of an httpx client with the hook carry the anchors of the current tuple."""

import asyncio
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import httpx
import pytest
from acker_client import DuplicateKey, InvalidSignature, TupleClosed, UsageError, propagate
from acker_client.integrations.httpx import KEY, ainject_request, inject_request
from acker_client.propagate import sign, use, verify
from acker_protocol.anchors import read_anchors
from acker_protocol.ids import derive_edge
from acker_protocol.operations import Outcome
from acker_protocol.states import Finished

BILLING = "http://billing.test/charges"


class Peer:
    """The service that is spoken to: keeps what came, and answers as told, else with 200."""

    def __init__(self) -> None:
        self.came: list[httpx.Headers] = []
        self.answers: list[httpx.Response] = []

    def edges(self) -> list[int]:
        """The edge that each request carried."""
        found = [read_anchors(headers, topology="default").anchors for headers in self.came]
        return [anchor.edge_id for anchors in found for anchor in anchors]

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.came.append(httpx.Headers(request.headers))
        return self.answers.pop(0) if self.answers else httpx.Response(200)


@pytest.fixture
def peer():
    return Peer()


@pytest.fixture
def http(peer):
    with httpx.Client(transport=peer.transport(), event_hooks={"request": [inject_request]}) as client:
        yield client


@pytest.fixture
def headers(acker):
    """A message of one root, on its way to one consumer."""
    with acker.shared_spout("orders").emit(message_id="42") as root:
        return root.headers("order")


def outcomes(service) -> list[Outcome]:
    return [state.outcome for state in service.roots.values() if isinstance(state, Finished)]


def test_each_request_is_a_child_with_an_edge_of_its_own(acker, service, headers, http, peer):
    with acker.receive(headers, component="order"):
        http.post(BILLING)
        http.post(BILLING)
    assert len(set(peer.edges())) == 2
    for child in peer.came:
        assert outcomes(service) == []
        acker.ack(acker.receive(child, component="billing"))
    assert outcomes(service) == [Outcome.ACKED]


def test_a_root_is_injected_as_a_tuple_is(acker, service, http, peer):
    with acker.shared_spout("orders").emit(message_id="42") as root, use(root):
        http.post(BILLING)
    acker.ack(acker.receive(peer.came[0], component="billing"))
    assert outcomes(service) == [Outcome.ACKED]


def test_a_request_with_a_key_has_the_derived_edge(acker, headers, http, peer):
    with acker.receive(headers, component="order") as tup:
        http.post(BILLING, extensions={KEY: "charge"})
    [parent] = tup.anchors.anchors
    derived = derive_edge(root_id=parent.root_id, parent_edge=parent.edge_id, component="order", name="charge")
    assert peer.edges() == [derived]


def test_two_requests_of_one_name_are_refused_and_the_second_is_not_sent(acker, headers, http, peer):
    with acker.receive(headers, component="order"):
        http.post(BILLING, extensions={KEY: "charge"})
        with pytest.raises(DuplicateKey):
            http.post(BILLING, extensions={KEY: "charge"})
    assert len(peer.came) == 1


def test_one_request_sent_again_is_one_child(acker, headers, http, peer):
    request = http.build_request("POST", BILLING)
    with acker.receive(headers, component="order"):
        http.send(request)
        http.send(request)
    assert peer.edges()[0] == peer.edges()[1]


@pytest.mark.parametrize("status", [303, 307])
def test_a_redirect_takes_the_edge_along(acker, headers, http, peer, status):
    peer.answers.append(httpx.Response(status, headers={"Location": "http://other.test/"}))
    with acker.receive(headers, component="order"):
        http.post(BILLING, follow_redirects=True)
    assert len(peer.came) == 2
    assert peer.edges()[0] == peer.edges()[1]


def test_an_answer_to_a_challenge_is_the_same_child(acker, headers, http, peer):
    challenge = 'Digest realm="r", nonce="n", qop="auth"'
    peer.answers.append(httpx.Response(401, headers={"WWW-Authenticate": challenge}))
    with acker.receive(headers, component="order"):
        http.post(BILLING, auth=httpx.DigestAuth("liu", "bei"))
    assert len(peer.came) == 2
    assert peer.edges()[0] == peer.edges()[1]


def test_anchors_that_a_request_has_already_are_left_alone(acker, headers, http, peer):
    with acker.receive(headers, component="order") as tup:
        child = tup.anchor("charge")
        http.post(BILLING, headers=child.headers())
    assert peer.edges() == [child.anchors[0].edge_id]


def test_outside_a_block_no_request_is_tracked(acker, headers, http, peer):
    http.post(BILLING)
    with acker.receive(headers, component="order"), use(None):
        http.post(BILLING)
    http.post(BILLING)
    assert (len(peer.came), peer.edges()) == (3, [])


def test_the_inner_block_holds_until_it_is_left_also_by_an_exception(acker, headers, http, peer):
    outer, inner = (acker.receive(headers, component=name) for name in ("outer", "inner"))
    with use(outer):
        with suppress(ZeroDivisionError), use(inner):
            http.post(BILLING, extensions={KEY: "x"})
            raise ZeroDivisionError
        http.post(BILLING, extensions={KEY: "x"})
    names = [tup.component for tup in (inner, outer)]
    [parent] = outer.anchors.anchors
    assert peer.edges() == [
        derive_edge(root_id=parent.root_id, parent_edge=parent.edge_id, component=name, name="x") for name in names
    ]


def test_a_tuple_that_is_not_tracked_adds_no_header(acker, http, peer):
    with acker.receive({}, component="order"):
        http.post(BILLING)
    assert "Acker-Anchors" not in peer.came[0]


def test_a_request_behind_the_end_of_its_tuple_is_refused_and_not_sent(acker, headers, http, peer):
    tup = acker.receive(headers, component="order")
    with use(tup):
        acker.ack(tup)
        with pytest.raises(TupleClosed):
            http.post(BILLING)
    assert peer.came == []


@pytest.mark.anyio
async def test_tasks_side_by_side_each_carry_their_own_tuple(async_acker, service, peer):
    hooks = {"request": [ainject_request]}
    spout = async_acker.shared_spout("orders")

    async def work(message_id: str) -> None:
        async with spout.emit(message_id=message_id) as root:
            with use(root):
                await asyncio.sleep(0)
                await http.post(BILLING)
        sent[message_id] = root.root_id

    sent: dict[str, str] = {}
    async with httpx.AsyncClient(transport=peer.transport(), event_hooks=hooks) as http:
        await asyncio.gather(*map(work, "abc"))
    came = [headers["Acker-Anchors"].split()[2].split("-")[0] for headers in peer.came]
    assert sorted(came) == sorted(sent.values())
    for headers in peer.came:
        await async_acker.ack(async_acker.receive(headers, component="billing"))
    assert outcomes(service) == [Outcome.ACKED] * 3


@pytest.mark.anyio
async def test_a_thread_of_asyncio_takes_the_tuple_along(acker, headers, http, peer):
    with acker.receive(headers, component="order"):
        await asyncio.to_thread(http.post, BILLING)
    assert len(peer.edges()) == 1


SECRET = "32 random characters, from a file"


@pytest.fixture
def signing(peer):
    """A client whose hook has a secret."""
    hooks = {"request": [partial(inject_request, secret=SECRET)]}
    with httpx.Client(transport=peer.transport(), event_hooks=hooks) as client:
        yield client


@pytest.fixture
def clock(monkeypatch):
    """The time in Unix seconds, by which anchors are signed."""
    clock = SimpleNamespace(now=1_790_000_000)
    monkeypatch.setattr(propagate, "time", SimpleNamespace(time=lambda: clock.now))
    return clock


def signatures(peer: Peer) -> list[str | None]:
    return [headers.get("Acker-Anchors-Signature") for headers in peer.came]


def test_a_hook_with_a_secret_signs_what_it_injects(acker, headers, signing, peer):
    with acker.receive(headers, component="order"):
        signing.post(BILLING, extensions={KEY: "charge"})
    signing.post(BILLING)
    [child, outside] = peer.came
    verify(child, secret=SECRET)
    assert (len(peer.edges()), signatures(peer)[1], "Acker-Anchors" in outside) == (1, None, False)


def test_a_hook_without_a_secret_signs_nothing(acker, headers, http, peer):
    with acker.receive(headers, component="order"):
        http.post(BILLING)
    assert signatures(peer) == [None]


def test_a_request_that_is_sent_again_later_is_signed_anew_for_the_same_edge(acker, headers, signing, peer, clock):
    request = signing.build_request("POST", BILLING)
    with acker.receive(headers, component="order"):
        signing.send(request)
    clock.now += 1_000
    signing.send(request)
    assert [signature.split()[1] for signature in signatures(peer)] == ["1790000000", "1790001000"]
    assert peer.edges()[0] == peer.edges()[1]
    verify(peer.came[1], secret=SECRET)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(307, headers={"Location": "/elsewhere"}),
        httpx.Response(308, headers={"Location": "http://BILLING.test:80/elsewhere"}),
        httpx.Response(301, headers={"Location": "https://billing.test/charges"}),
        httpx.Response(401, headers={"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}),
    ],
    ids=["redirect", "the usual port", "https", "challenge"],
)
def test_what_the_client_sends_again_by_itself_is_signed_too(acker, headers, signing, peer, answer):
    peer.answers.append(answer)
    with acker.receive(headers, component="order"):
        signing.post(BILLING, follow_redirects=True, auth=httpx.DigestAuth("liu", "bei"))
    assert len(peer.came) == 2
    for came in peer.came:
        verify(came, secret=SECRET)


def redirect(peer: Peer, *locations: str) -> None:
    peer.answers += [httpx.Response(307, headers={"Location": location}) for location in locations]


@pytest.mark.parametrize(
    ("at", "away"),
    [
        (BILLING, "http://stranger.test/charges"),
        (BILLING, "http://sub.billing.test/charges"),
        (BILLING, "http://billing.test:81/charges"),
        (BILLING, "https://billing.test:8443/charges"),
        ("http://billing.test:8080/charges", "https://billing.test/charges"),
        ("https://billing.test/charges", "http://billing.test/charges"),
    ],
)
def test_a_redirect_to_another_origin_takes_the_anchors_along_without_a_signature(
    acker, headers, signing, peer, at, away
):
    redirect(peer, away)
    with acker.receive(headers, component="order"):
        signing.post(at, follow_redirects=True, headers={"Authorization": "Bearer x"})
    [first, other] = peer.came
    verify(first, secret=SECRET)
    assert "Authorization" not in other
    assert (signatures(peer)[1], other["Acker-Anchors"]) == (None, first["Acker-Anchors"])


def test_a_request_that_another_origin_sends_back_stays_without_a_signature_and_the_next_one_has_one(
    acker, headers, signing, peer
):
    redirect(peer, "http://stranger.test/", "http://stranger.test/again", BILLING)
    request = signing.build_request("POST", BILLING)
    with acker.receive(headers, component="order"):
        signing.send(request, follow_redirects=True)
        signing.send(request)
        signing.post("http://stranger.test/")
    assert [signature is None for signature in signatures(peer)] == [False, True, True, True, False, False]
    assert len(set(peer.edges())) == 2


@pytest.mark.parametrize("client", ["signing", "http"])
def test_a_signature_made_by_hand_does_not_go_to_another_origin_either(acker, headers, peer, request, client):
    redirect(peer, "/elsewhere", "http://stranger.test/")
    with acker.receive(headers, component="order") as tup:
        signed = sign(tup.headers(), secret=SECRET)
        request.getfixturevalue(client).post(BILLING, headers=signed, follow_redirects=True)
    assert signatures(peer) == [signed["Acker-Anchors-Signature"]] * 2 + [None]
    assert len(set(peer.edges())) == 1


def test_a_request_whose_address_was_changed_is_not_signed_for_the_other_origin(acker, headers, signing, peer):
    request = signing.build_request("POST", BILLING)
    with acker.receive(headers, component="order"):
        signing.send(request)
    request.url = httpx.URL("http://stranger.test/")
    signing.send(request)
    assert signatures(peer)[1] is None


@pytest.mark.parametrize("passed_on", [{}, {"Acker-Anchors-Signature": "00 1790000000 " + 64 * "a"}])
def test_anchors_of_somebody_else_are_passed_on_and_not_signed(acker, headers, signing, peer, passed_on):
    forged = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"} | passed_on
    with acker.receive(headers, component="order"):
        signing.post(BILLING, headers=forged)
    signing.post(BILLING, headers=forged)
    assert signatures(peer) == [passed_on.get("Acker-Anchors-Signature")] * 2


def test_anchors_that_replace_those_of_the_hook_are_not_signed_when_the_request_is_sent_again(
    acker, headers, signing, peer
):
    request = signing.build_request("POST", BILLING)
    with acker.receive(headers, component="order"):
        signing.send(request)
    request.headers["Acker-Anchors"] = "00 default 00000000000000aa-00000000000000bb"
    signing.send(request)
    with pytest.raises(InvalidSignature):
        verify(peer.came[1], secret=SECRET)


def test_anchors_made_by_hand_are_signed_by_hand(acker, headers, signing, peer):
    with acker.receive(headers, component="order") as tup:
        signing.post(BILLING, headers=sign(tup.headers(key="charge"), secret=[SECRET, "another of 16 or more"]))
    verify(peer.came[0], secret=["yet another of 16 or more", SECRET])


@pytest.mark.anyio
async def test_the_hook_of_an_async_client_signs_too(async_acker, peer):
    hooks = {"request": [partial(ainject_request, secret=SECRET)]}
    async with (
        httpx.AsyncClient(transport=peer.transport(), event_hooks=hooks) as http,
        async_acker.shared_spout("orders").emit(message_id="42"),
    ):
        redirect(peer, "http://stranger.test/")
        await http.post(BILLING, follow_redirects=True)
    verify(peer.came[0], secret=SECRET)
    assert signatures(peer)[1] is None


def test_a_hook_with_a_secret_that_can_be_guessed_is_refused(acker, headers, peer):
    hooks = {"request": [partial(inject_request, secret="short")]}
    with (
        httpx.Client(transport=peer.transport(), event_hooks=hooks) as http,
        acker.receive(headers, component="order"),
        pytest.raises(UsageError, match="16 characters"),
    ):
        http.post(BILLING)
    assert peer.came == []
