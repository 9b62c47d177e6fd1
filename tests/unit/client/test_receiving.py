"""Tests `receive`: a tuple with its own verbs, current in its block, repeatable by promise, left open with care."""

import asyncio
import logging
import threading
from functools import partial

import httpx
import pytest
from acker_client import DuplicateKey, InvalidHeader, InvalidSignature, UsageError
from acker_client.propagate import current, extract, inject, sign, use, verify
from acker_protocol.anchors import header_values
from acker_protocol.operations import OperationState, Outcome
from acker_protocol.states import Finished, TopologyRules
from starlette.datastructures import MutableHeaders

PENDING, ACKED, FAILED = ([OperationState(word)] for word in ("pending", "acked", "failed"))


@pytest.fixture
def headers(acker):
    """A message of one root, on its way to one consumer."""
    with acker.shared_spout("orders").emit("42") as root:
        return root.headers(key="split")


def outcome(service) -> Outcome | None:
    [state] = service.roots.values()
    return state.outcome if isinstance(state, Finished) else None


def edge(headers: dict[str, str]) -> str:
    return headers["Acker-Anchors"][-16:]


def test_a_tuple_acks_fails_and_resets_its_timeout_itself(acker, headers):
    tup = acker.receive(headers, component="split")
    assert tup.reset_timeout() == PENDING
    child = acker.receive(tup.headers(key="a"), component="count")
    assert tup.ack() == PENDING
    assert child.fail("no such word") == FAILED


@pytest.mark.anyio
async def test_a_tuple_of_an_async_acker_does_so_too(async_acker, headers):
    tup = async_acker.receive(headers, component="split")
    assert await tup.reset_timeout() == PENDING
    child = async_acker.receive(tup.headers(key="a"), component="count")
    assert await tup.ack() == PENDING
    assert await child.fail("no such word") == FAILED


@pytest.mark.anyio
async def test_a_tuple_of_an_async_acker_says_how_its_block_is_written(async_acker, headers):
    with pytest.raises(UsageError, match="async with"), async_acker.receive(headers, component="split"):
        pytest.fail("the block was entered")


def test_a_tuple_is_current_in_its_block_and_only_there(acker, headers):
    assert current() is None
    with acker.receive(headers, component="outer") as outer:
        assert current() is outer
        with acker.receive(outer.headers(), component="inner") as inner:
            assert current() is inner
        assert current() is outer
    assert current() is None
    with pytest.raises(ZeroDivisionError), acker.receive({}, component="outer"):
        raise ZeroDivisionError
    assert current() is None


@pytest.mark.anyio
async def test_tasks_side_by_side_have_their_own_current_tuple(async_acker, headers):
    async def work(component: str) -> None:
        async with async_acker.receive({}, component=component) as tup:
            await asyncio.sleep(0)
            assert current() is tup
        assert current() is None

    await asyncio.gather(*map(work, "abc"))
    assert current() is None


def test_a_root_is_current_in_its_emit_block_and_only_there(acker):
    with acker.receive({}, component="outer") as outer:
        with acker.shared_spout("orders").emit("42") as root:
            assert current() is root
        with pytest.raises(ZeroDivisionError), acker.shared_spout("orders").emit("43"):
            raise ZeroDivisionError
        assert current() is outer


@pytest.mark.anyio
async def test_a_root_of_an_async_spout_is_current_in_its_emit_block_too(async_acker):
    async with async_acker.shared_spout("orders").emit("42") as root:
        assert current() is root
    assert current() is None


def test_inject_anchors_a_child_to_what_is_current_and_extract_reads_it(acker, service, headers):
    outgoing: dict[str, str] = {"content-type": "text/plain"}
    with acker.receive(headers, component="split") as tup:
        inject(outgoing, key="a")
        [parent] = tup.anchors.anchors
    anchors = extract(outgoing)
    assert anchors is not None
    assert anchors.topology == "default"
    assert anchors.anchors[0].root_id == parent.root_id
    acker.receive(outgoing, component="count").ack()
    assert outcome(service) is Outcome.ACKED


def test_inject_does_nothing_without_a_current_tuple_and_where_there_are_anchors_already(acker, headers):
    outgoing: dict[str, str] = {}
    inject(outgoing)
    with acker.receive(headers, component="split"), use(None):
        inject(outgoing)
    assert outgoing == {}
    assert extract(outgoing) is None
    with acker.receive(headers, component="split"):
        inject(there := {"acker-anchors": "as it was"})
    assert there == {"acker-anchors": "as it was"}


def test_a_root_gives_headers_too(acker, service):
    with acker.shared_spout("orders").emit("42") as root, use(root):
        inject(outgoing := {}, key="bill")
        with pytest.raises(DuplicateKey):
            root.headers(key="bill")
    acker.receive(outgoing, component="bill").ack()
    assert outcome(service) is Outcome.ACKED


def run_again(acker, service, headers, *, repeatable: bool) -> Outcome | None:
    """A first run sends A and dies; a re-run sends B before A. Then every A is processed, and B is not."""
    service.store.rules = TopologyRules(dedupe_window_ms=60_000)
    acker._session.cached_info = None
    options = {"component": "split", "on_error": "leave_open", "repeatable": repeatable}
    sent: dict[str, list[dict[str, str]]] = {"A": [], "B": []}
    with pytest.raises(ZeroDivisionError), acker.receive(headers, **options) as tup:
        raise ZeroDivisionError(sent["A"].append(tup.headers()))
    with acker.receive(headers, **options) as tup:
        for word in ("B", "A"):
            sent[word].append(tup.headers())
    for child in sent["A"]:
        acker.receive(child, component="count").ack()
    return outcome(service)


def test_a_re_run_in_another_order_never_ends_acked_with_a_child_unworked(acker, service, headers):
    """The children have random edges, so the one of B stays open, and the root times out and is replayed."""
    assert run_again(acker, service, headers, repeatable=False) is None


def test_a_promise_of_the_same_order_that_is_broken_loses_a_child(acker, service, headers):
    """Why children are numbered by promise only: the first A has the number of B, so its ack ends B unworked."""
    assert run_again(acker, service, headers, repeatable=True) is Outcome.ACKED


def test_a_repeatable_tuple_gives_children_without_a_key_the_same_edges_in_every_run(acker, headers):
    runs = [acker.receive(headers, component="split", repeatable=True) for _ in range(2)]
    edges = [[edge(tup.headers()), edge(tup.headers(key="x")), edge(tup.headers())] for tup in runs]
    assert edges[0] == edges[1]
    assert len(set(edges[0])) == 3


def test_children_with_a_key_do_not_count_among_the_numbers_of_a_repeatable_tuple(acker, headers):
    runs = [acker.receive(headers, component="split", repeatable=True) for _ in range(2)]
    runs[0].headers(key="x")
    assert edge(runs[0].headers()) == edge(runs[1].headers())


def test_children_without_a_key_are_random_unless_the_tuple_is_repeatable(acker, headers):
    runs = [acker.receive(headers, component="split") for _ in range(2)]
    assert edge(runs[0].headers()) != edge(runs[1].headers())


def test_a_repeatable_join_numbers_its_children_in_each_of_its_tuples(acker, headers):
    tup = acker.receive(headers, component="join", repeatable=True)
    child = acker.anchor(tup, tup)
    assert len({anchor.edge_id for anchor in child.anchors}) == 2
    assert {anchor.edge_id for anchor in acker.anchor(tup).anchors}.isdisjoint(a.edge_id for a in child.anchors)


def test_a_child_of_a_repeatable_tuple_made_in_another_thread_needs_a_key(acker, headers):
    raised: list[BaseException] = []
    tup = acker.receive(headers, component="split", repeatable=True)

    def work() -> None:
        tup.headers(key="a")
        try:
            tup.headers()
        except UsageError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "another thread or task" in str(raised[0])
    assert tup.headers() != {}


@pytest.mark.anyio
async def test_a_child_of_a_repeatable_tuple_made_in_another_task_needs_a_key(async_acker, headers):
    async def work(key: str | None) -> dict[str, str]:
        return tup.headers(key=key)

    async with async_acker.receive(headers, component="split", repeatable=True) as tup:
        assert await asyncio.create_task(work("a")) != {}
        with pytest.raises(UsageError, match="another thread or task"):
            await asyncio.create_task(work(None))
        assert tup.headers() != {}


def test_a_child_without_a_key_may_be_made_anywhere_if_the_tuple_is_not_repeatable(acker, headers):
    made: list[dict[str, str]] = []
    with acker.receive(headers, component="split") as tup:
        thread = threading.Thread(target=lambda: made.append(tup.headers()))
        thread.start()
        thread.join()
    assert len(made) == 1


def test_a_tuple_to_be_left_open_refuses_a_child_without_a_key_where_nothing_dedupes(acker, service, headers):
    with acker.receive(headers, component="split", on_error="leave_open") as tup:
        assert tup.headers(key="a") != {}
        with pytest.raises(UsageError, match="dedupe_window"):
            tup.headers()


@pytest.mark.parametrize("options", [{"repeatable": True}, {"on_error": "fail"}])
def test_it_may_have_one_if_it_is_repeatable_or_fails(acker, headers, options):
    with acker.receive(headers, component="split", **{"on_error": "leave_open"} | options) as tup:
        assert tup.headers() != {}


def test_it_may_have_one_on_a_topology_that_dedupes_and_where_nothing_is_tracked(acker, service, headers):
    acker._session.cached_info = None
    service.requests.clear()
    with acker.receive({}, component="split", on_error="leave_open") as tup:
        assert tup.headers() == {}
    assert service.requests == []
    service.store.rules = TopologyRules(dedupe_window_ms=60_000)
    acker._session.cached_info = None
    with acker.receive(headers, component="split", on_error="leave_open") as tup:
        assert tup.headers() != {}


def test_a_tuple_without_a_header_is_counted_and_logged_once(acker, headers, caplog):
    with caplog.at_level(logging.DEBUG, "acker_client"):
        for message in ({}, {"Content-Type": "text/plain"}, headers):
            acker.receive(message, component="split")
    assert acker.stats().untracked_tuples == 2
    assert [record.levelname for record in caplog.records if "Acker-Anchors" in record.message] == ["DEBUG"]


@pytest.mark.anyio
async def test_an_async_client_counts_a_tuple_without_a_header_too(async_acker, headers):
    for message in ({}, headers):
        async_acker.receive(message, component="split")
    assert async_acker.stats().untracked_tuples == 1


SECRET = "32 random characters, from a file"


def test_what_is_injected_with_a_secret_is_signed(acker, headers):
    with acker.receive(headers, component="split"):
        inject(carrier := {"x": "y"}, "word", secret=[SECRET, "another of 16 or more"])
        inject(plain := {}, "another")
    verify(carrier, secret=SECRET)
    assert (carrier["x"], len(carrier), list(plain)) == ("y", 3, ["Acker-Anchors"])


SIGNATURE = "Acker-Anchors-Signature"
STRANGE = [(SIGNATURE.lower(), "junk"), (SIGNATURE, f"00 1790000000 {64 * 'a'}"), (SIGNATURE.upper(), "")]


@pytest.mark.parametrize("secret", [SECRET, None])
@pytest.mark.parametrize(
    "make",
    [
        *(partial(dict, [each]) for each in STRANGE),
        partial(dict, STRANGE),
        partial(httpx.Headers, STRANGE),
        lambda: MutableHeaders(raw=[(name.lower().encode(), value.encode()) for name, value in STRANGE]),
        lambda: pytest.importorskip("multidict").CIMultiDict(STRANGE),
    ],
    ids=["lower", "same", "upper", "all", "httpx", "starlette", "aiohttp"],
)
def test_a_signature_of_somebody_else_goes_when_anchors_are_injected(acker, headers, make, secret):
    carrier = make()
    carrier["x"] = "y"
    inject(carrier, secret=secret)
    with acker.receive({}, component="split"):
        inject(carrier, secret=secret)
    assert header_values(carrier, SIGNATURE) != []  # nothing was injected
    with acker.receive(headers, component="split"):
        inject(carrier, secret=secret)
    assert carrier["x"] == "y"
    if secret is None:
        assert header_values(carrier, SIGNATURE) == []
    else:
        verify(carrier, secret=secret)


def test_nothing_is_signed_outside_of_a_block_or_where_there_are_anchors(acker, headers):
    inject(carrier := {}, secret=SECRET)
    with acker.receive(headers, component="split"):
        inject(given := dict(headers), secret=SECRET)
    with acker.receive({}, component="split"):
        inject(untracked := {}, secret=SECRET)
    assert (carrier, given, untracked) == ({}, headers, {})


def test_a_signature_replaces_the_one_before_and_keeps_the_other_headers(headers):
    once = sign(headers | {"x": "y", "acker-anchors-signature": "old"}, secret=SECRET)
    assert set(once) == {"Acker-Anchors", "x", "Acker-Anchors-Signature"}
    verify(once, secret=SECRET)
    assert "Acker-Anchors-Signature" not in headers


def test_headers_without_anchors_are_not_signed():
    assert sign({"x": "y"}, secret=SECRET) == {"x": "y"}


def test_anchors_without_a_signature_are_refused_as_invalid(headers):
    with pytest.raises(InvalidHeader, match="needs one Acker-Anchors-Signature"):
        verify(headers, secret=SECRET)
    with pytest.raises(InvalidSignature):
        verify(sign(headers, secret=SECRET), secret="another of 16 or more")
    verify({}, secret=SECRET)


@pytest.mark.parametrize(
    "use_secret", [lambda secret: sign({}, secret=secret), lambda secret: verify({}, secret=secret)]
)
@pytest.mark.parametrize("secret", ["", "short", None, []])
def test_a_secret_that_can_be_guessed_is_refused(use_secret, secret):
    with pytest.raises(UsageError, match="secret"):
        use_secret(secret)
