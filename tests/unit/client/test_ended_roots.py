"""Workers ask whether a tuple is still wanted: what the answer is, when it is asked for, and what a failure means."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from acker_client import Acker, AsyncAcker, FailTuple, TupleClosed
from acker_client._core.ended_roots import EndedRoots
from acker_client._core.retry import RetrySession
from acker_client.config import ClientConfig
from acker_client.testing import Clock, MemoryAcker
from acker_client.tuple import Tuple
from acker_protocol import errors
from acker_protocol.ids import draw_id, format_id

from tests.support.waiting import eventually_true
from tests.unit.client.conftest import met

PATH = "/v1/topologies/default/roots/states"


def questions(service: MemoryAcker) -> int:
    return sum(request.url.path == PATH for request in service.requests)


def began(acker: Acker) -> Tuple:
    """Emit a root, and receive its one tuple."""
    with acker.spout("orders").emit(message_id="42") as root:
        headers = root.headers()
    return acker.receive(headers, component="count")


@pytest.fixture
def elsewhere(connect: Callable[..., Acker]) -> Iterator[Acker]:
    """The client of another process, which ends roots without the knowledge of this one."""
    with connect() as acker:
        yield acker


def again(acker: Acker, *tuples: Tuple) -> Tuple:
    """Receive the message of a tuple as another worker would; that of several has all their anchors."""
    anchors = ",".join(str(anchor) for tup in tuples for anchor in tup.anchors.anchors)
    return acker.receive({"Acker-Anchors": f"00 default {anchors}"}, component="count")


def test_a_tuple_is_wanted_until_all_its_roots_have_ended(acker: Acker, elsewhere: Acker, time: Clock) -> None:
    one, other = began(acker), began(acker)
    both = again(acker, one, other)
    assert both.is_wanted()
    again(elsewhere, one).fail("no such word")
    time.advance(1.1)
    assert (again(acker, one).is_wanted(), both.is_wanted()) == (False, True)
    again(acker, other).ack()
    time.advance(1.1)
    assert not both.is_wanted()


def test_a_root_that_timed_out_is_not_wanted(acker: Acker, time: Clock) -> None:
    tup = began(acker)
    time.advance(31)
    assert not tup.is_wanted()


def test_roots_that_are_early_or_unknown_are_wanted(acker: Acker, elsewhere: Acker, service: MemoryAcker) -> None:
    unknown = acker.receive({"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}, component="count")
    assert unknown.is_wanted()
    early = acker.receive({"Acker-Anchors": f"00 default {format_id(3)}-{format_id(4)}"}, component="count")
    again(elsewhere, early).fail("too soon")
    assert early.is_wanted()
    assert questions(service) == 2


def test_an_outcome_that_is_forgotten_is_wanted_again(
    service: MemoryAcker, acker: Acker, elsewhere: Acker, time: Clock
) -> None:
    tup = began(acker)
    again(elsewhere, tup).fail("no")
    time.advance(59)
    assert not tup.is_wanted()
    time.advance(180)
    assert tup.is_wanted()


def test_a_tuple_that_is_not_tracked_is_wanted_without_a_question(acker: Acker, service: MemoryAcker) -> None:
    assert acker.receive({}, component="count").is_wanted()
    assert questions(service) == 0


def test_an_answer_counts_for_a_second(acker: Acker, elsewhere: Acker, service: MemoryAcker, time: Clock) -> None:
    tup = began(acker)
    for _ in range(3):
        assert tup.is_wanted()
    again(elsewhere, tup).fail("no")
    time.advance(0.9)
    assert tup.is_wanted()
    assert questions(service) == 1
    time.advance(0.2)
    assert [tup.is_wanted(), tup.is_wanted()] == [False, False]
    assert questions(service) == 2


def test_a_root_that_is_known_to_be_pending_spares_the_question_about_others(
    acker: Acker, service: MemoryAcker
) -> None:
    one, other = began(acker), began(acker)
    assert one.is_wanted()
    assert again(acker, one, other).is_wanted()
    assert questions(service) == 1


def test_what_counts_no_more_is_not_kept_whatever_is_asked_again(acker: Acker, time: Clock) -> None:
    lasting = began(acker)
    for _ in range(5):
        time.advance(1.1)
        assert lasting.is_wanted()
        assert began(acker).is_wanted()
    assert len(acker._submitter.ended_roots._known) == 2


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ReadTimeout("silence"),
        httpx.ConnectError("refused"),
        errors.StoreUnavailable("away"),
        errors.Forbidden("no such scope"),
        httpx.Response(404),
        httpx.Response(200, content=b"what"),
        httpx.Response(200, json={"roots": [{"root_id": 5}]}),
        httpx.Response(200, json={"roots": "none"}),
    ],
    ids=str,
)
def test_what_fails_is_wanted_and_is_not_asked_again_for_a_second(
    acker: Acker, elsewhere: Acker, service: MemoryAcker, time: Clock, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tup = began(acker)
    again(elsewhere, tup).fail("no")
    service.faults += [fault, fault]
    with caplog.at_level(logging.WARNING, logger="acker_client"):
        assert tup.is_wanted()
        assert tup.is_wanted()
        assert questions(service) == 1
        time.advance(1.1)
        assert tup.is_wanted()
    assert [record.message.partition(" (")[0] for record in caplog.records] == [
        "whether tuples are still wanted cannot be asked"
    ]
    time.advance(1.1)
    assert not tup.is_wanted()
    assert not acker._submitter.ended_roots._is_failing


def test_an_answer_without_a_root_that_was_asked_for_leaves_it_wanted(
    acker: Acker, elsewhere: Acker, service: MemoryAcker
) -> None:
    tup = began(acker)
    again(elsewhere, tup).fail("no")
    service.faults.append(httpx.Response(200, json={"roots": []}))
    assert tup.is_wanted()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes requests and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_service_that_does_not_answer_keeps_nobody(silent: str) -> None:
    """It never answers, and a request may take an hour: so the question has a limit of its own."""
    acker = Acker(silent, request_timeout=3_600)
    assert acker.receive({"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}, component="count").is_wanted()
    acker.close()


@pytest.mark.anyio
async def test_a_service_that_does_not_answer_keeps_no_task(silent: str) -> None:
    acker = AsyncAcker(silent, request_timeout=3_600)
    header = {"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}
    assert await acker.receive(header, component="count").is_wanted()
    await acker.close()


class Dripping:
    """A server that begins each answer and never ends it: a byte comes again and again, for a minute at most."""

    def __init__(self, server: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        self._server = server
        self._stop = threading.Event()
        self.was_left = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _serve(self) -> None:
        connected, _ = self._server.accept()
        with connected:
            connected.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            for _ in range(600):
                if self._stop.wait(0.1):
                    return
                try:
                    connected.sendall(b"x")
                except OSError:
                    self.was_left.set()
                    return


@pytest.fixture
def dripping() -> Iterator[Dripping]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = Dripping(server)
        yield dripping
        dripping.stop()


def test_a_service_whose_answer_does_not_end_keeps_nobody(dripping: Dripping) -> None:
    """Each of its bytes comes in time: so the question is bounded as a whole."""
    acker = Acker(dripping.url, request_timeout=3_600)
    assert acker.receive({"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}, component="count").is_wanted()
    assert dripping.was_left.wait(30)
    acker.close()


@pytest.mark.anyio
async def test_a_service_whose_answer_does_not_end_keeps_no_task(dripping: Dripping) -> None:
    acker = AsyncAcker(dripping.url, request_timeout=3_600)
    header = {"Acker-Anchors": f"00 default {format_id(1)}-{format_id(2)}"}
    assert await acker.receive(header, component="count").is_wanted()
    assert await asyncio.to_thread(dripping.was_left.wait, 30)
    await acker.close()


def test_through_httpx_each_step_of_a_question_may_take_half_a_second_or_the_shorter_timeout_of_the_client(
    connect: Callable[..., Acker], service: MemoryAcker
) -> None:
    for timeout_s, limit_s in ((10.0, 0.5), (0.25, 0.25)):
        acker = connect(request_timeout=timeout_s)
        assert began(acker).is_wanted()
        assert service.requests[-1].extensions["timeout"]["read"] == limit_s
        acker.close()


class HeldTransport(httpx.BaseTransport):
    """Holds the first question back until it is let go."""

    def __init__(self, service: MemoryAcker) -> None:
        self._inner = service.transport()
        self.came, self.let_go = threading.Event(), threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == PATH and not self.came.is_set():
            self.came.set()
            self.let_go.wait()
        return self._inner.handle_request(request)


@pytest.mark.parametrize("fails", [False, True])
def test_callers_that_ask_at_the_same_time_share_a_request_also_one_that_fails(
    service: MemoryAcker, connect: Callable[..., Acker], elsewhere: Acker, *, fails: bool
) -> None:
    transport = HeldTransport(service)
    acker = met(connect(transport=transport), service)
    tuples = [began(acker) for _ in range(40)]
    for tup in tuples:
        again(elsewhere, tup).fail("no")
    ended = acker._submitter.ended_roots
    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(tuples[0].is_wanted)]
        transport.came.wait()
        answers += [pool.submit(tup.is_wanted) for tup in tuples[1:]]
        eventually_true(lambda: len(ended._questions) == 40)
        if fails:
            service.faults.append(httpx.ConnectError("refused"))
        transport.let_go.set()
        assert {answer.result() for answer in answers} == {fails}
    assert questions(service) == (1 if fails else 2)
    assert ended._questions == []


def test_a_request_names_a_thousand_roots_at_most() -> None:
    ended = EndedRoots(RetrySession(topology="default", config=ClientConfig(clock=Clock())))
    flows = [ended.have_ended([draw_id() for _ in range(600)]) for _ in range(2)]
    request = next(flows[0])
    assert request.body.count(b'"') == 2 + 2 * 600
    next(flows[1])
    assert len(ended._take_together()[1]) == 600


def test_a_caller_that_is_interrupted_leaves_the_turn_to_the_next() -> None:
    ended = EndedRoots(RetrySession(topology="default", config=ClientConfig(clock=Clock())))
    one, other = ended.have_ended([1]), ended.have_ended([2])
    next(one)
    waiting = next(other)
    one.close()
    assert waiting.waiter.has_turn
    assert next(other).body == b'{"root_ids":["0000000000000002"]}'


def test_a_tuple_whose_roots_have_ended_is_skipped_without_an_operation(
    acker: Acker, elsewhere: Acker, service: MemoryAcker
) -> None:
    tup = began(acker)
    again(elsewhere, tup).fail("no")
    writes = len(service.writes())
    assert tup.skip_if_ended()
    assert (tup.closed, tup.failed, acker.stats().skipped) == (True, False, 1)
    with pytest.raises(TupleClosed, match="was skipped and cannot be acked any more"):
        tup.ack()
    with again(acker, tup) as block:
        assert block.skip_if_ended()
    assert len(service.writes()) == writes
    assert acker.stats().skipped == 2


@pytest.mark.parametrize("other_first", [True, False])
def test_what_this_client_has_ended_or_was_told_of_needs_no_question(
    acker: Acker, elsewhere: Acker, service: MemoryAcker, *, other_first: bool
) -> None:
    tup = began(acker)
    if other_first:
        again(elsewhere, tup).ack()
    with again(acker, tup):
        raise FailTuple("no")
    assert not tup.is_wanted()
    assert questions(service) == 0


def test_a_fail_of_a_root_that_is_not_begun_leaves_it_wanted(acker: Acker, service: MemoryAcker) -> None:
    early = acker.receive({"Acker-Anchors": f"00 default {format_id(3)}-{format_id(4)}"}, component="count")
    again(acker, early).fail("too soon")
    assert early.is_wanted()
    assert questions(service) == 1


def test_a_tuple_that_is_wanted_is_not_skipped(acker: Acker) -> None:
    tup = began(acker)
    assert not tup.skip_if_ended()
    assert (tup.closed, acker.stats().skipped) == (False, 0)


@pytest.mark.anyio
async def test_tasks_ask_and_skip_as_threads_do(async_acker: AsyncAcker, acker: Acker) -> None:
    tup = began(acker)
    received = async_acker.receive(tup.headers("x"), component="count")
    assert await received.is_wanted()
    tup.fail("no")
    other = async_acker.receive(again(acker, tup).headers("x"), component="count")
    async_acker._submitter.ended_roots.forget()
    assert await other.skip_if_ended()
    assert (other.closed, async_acker.stats().skipped) == (True, 1)


def test_the_child_of_a_fork_begins_without_knowledge(acker: Acker, service: MemoryAcker) -> None:
    tup = began(acker)
    assert tup.is_wanted()
    acker.after_fork_in_child()
    assert tup.is_wanted()
    assert questions(service) == 2
