"""Tests how a client is made: from the environment, with every default in its signature; and how it starts."""

import inspect
import logging
from contextlib import aclosing

import httpx
import pytest
from acker_client import Acker, AsyncAcker, EndOn, RetriesExhausted, UnknownRoot
from acker_client.config import ClientConfig, address_from
from acker_client.testing import MemoryAcker, lost_reply

ONE = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}
REFUSED = httpx.ConnectError("refused")


@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
def test_the_environment_says_where_the_acker_is(kind, monkeypatch):
    monkeypatch.setenv("ACKER_URL", "http://acker.test:9")
    monkeypatch.setenv("ACKER_TOPOLOGY", "orders")
    monkeypatch.setenv("ACKER_API_KEY", "secret")
    client = kind.from_env(retry_timeout=1)
    endpoint = client._endpoint
    assert (endpoint.url, client.topology, endpoint.api_key) == ("http://acker.test:9", "orders", "secret")
    assert client._session.config.retry_timeout == 1
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
def test_a_topology_that_is_named_wins_over_the_environment(kind, monkeypatch):
    monkeypatch.setenv("ACKER_TOPOLOGY", "orders")
    assert kind.from_env(topology="payments").topology == "payments"


def test_without_an_environment_it_is_on_this_machine():
    for environment in ({}, {"ACKER_URL": "", "ACKER_TOPOLOGY": "", "ACKER_API_KEY": ""}):
        address = address_from(environment)
        assert (address.url, address.topology, address.api_key) == ("http://127.0.0.1:8700", "default", None)


@pytest.mark.parametrize("kind", [Acker, AsyncAcker])
def test_every_default_of_a_client_is_in_its_signature(kind):
    signature = inspect.signature(kind).parameters
    config = ClientConfig()
    for name in ClientConfig.__dataclass_fields__:
        assert signature[name].default == getattr(config, name), name
    assert all(parameter.default is not parameter.empty for name, parameter in signature.items() if name != "url")


@pytest.fixture
def nobody(service, connect):
    """A client of an address where no server listens."""
    service.faults += [REFUSED] * 1_000
    return connect()


def test_where_no_acker_ever_listened_it_waits_for_startup_timeout_and_says_how_to_start_one(nobody, time):
    with pytest.raises(RetriesExhausted, match=r"http://acker.test.*acker serve.*ACKER_URL") as raised:
        nobody.receive(ONE, component="c").ack()
    assert 4.99 <= sum(time.slept) <= 5.0  # the last attempt is made at the limit
    assert raised.value.__cause__ is REFUSED
    assert raised.value.outcome_unknown is False


def test_an_acker_that_starts_in_that_time_is_found(service, connect, time):
    service.faults += [REFUSED] * 6
    with connect() as acker:
        assert acker.receive(ONE, component="c").ack() == ["early"]
    assert sum(time.slept) < 5


def test_without_a_startup_timeout_it_waits_as_always(service, connect, time):
    service.faults += [REFUSED] * 1_000
    with connect(startup_timeout=None) as acker, pytest.raises(RetriesExhausted) as raised:
        acker.receive(ONE, component="c").ack()
    assert sum(time.slept) > 50
    assert raised.value.outcome_unknown is True


def test_an_acker_that_has_answered_once_is_waited_for_as_always(acker, service, time):
    acker.receive(ONE, component="c").ack()
    service.faults += [REFUSED] * 1_000
    with pytest.raises(RetriesExhausted) as raised:
        acker.receive(ONE, component="c").ack()
    assert sum(time.slept) > 50
    assert raised.value.outcome_unknown is True


def test_an_acker_that_listened_once_and_gave_no_answer_leaves_an_unknown_outcome(service, connect, time):
    service.faults += [httpx.ReadTimeout("no answer"), *[REFUSED] * 1_000]
    with connect() as acker, pytest.raises(RetriesExhausted) as raised:
        acker.receive(ONE, component="c").ack()
    assert sum(time.slept) > 50
    assert raised.value.outcome_unknown is True


def test_a_failed_read_leaves_no_unknown_outcome(acker, service):
    acker.receive(ONE, component="c").ack()
    service.faults += [REFUSED] * 1_000
    with pytest.raises(RetriesExhausted) as raised:
        acker.roots.get("00000000000000aa")
    assert raised.value.outcome_unknown is False


def test_the_first_failure_of_an_outage_is_logged_with_the_address_and_how_long_it_goes_on(acker, service, caplog):
    acker._driver.run(acker._session.topology_info())
    service.faults += [REFUSED] * 3 + [None, None] + [httpx.Response(503)]
    with caplog.at_level(logging.WARNING, "acker_client"):
        for _ in range(3):
            acker.receive(ONE, component="c").ack()
    first, second = (record.message for record in caplog.records)
    assert "http://acker.test" in first
    assert "refused" in first
    assert "up to 60 s" in first
    assert "503" in second
    assert "http://acker.test" in second


def test_an_answer_that_no_retry_helps_ends_an_outage_too(acker, service, caplog):
    service.faults += [REFUSED, UnknownRoot("gone"), REFUSED]
    with caplog.at_level(logging.WARNING, "acker_client"):
        for _ in range(2):
            with pytest.raises(UnknownRoot):
                acker.roots.get("00000000000000aa")
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("seconds", "milliseconds"), [(0.1001, 101), (16.1, 16_100), (0.29, 290), (1, 1_000), (1.0000001, 1_001)]
)
def test_seconds_are_rounded_up_to_whole_milliseconds(acker, service, seconds, milliseconds):
    with acker.shared_spout("orders").emit("42", message_timeout=seconds):
        pass
    assert service.bodies("init")[0]["message_timeout_ms"] == milliseconds


def test_a_loop_over_completions_that_is_left_within_a_page_says_what_comes_again(acker, service, caplog):
    spout = acker.shared_spout("orders")
    for message_id in "abc":
        with spout.emit(message_id):
            pass
    with caplog.at_level(logging.WARNING, "acker_client"):
        for completion in spout.completions(until=0):
            if completion.message_id == "b":
                break
    assert "its 3 completions are not released and come again" in caplog.text
    assert "stop=" in caplog.text
    assert service.completions("orders") == ["a", "b", "c"]


@pytest.mark.anyio
async def test_a_loop_of_an_async_client_that_is_left_says_so_too(async_acker, service, caplog):
    spout = async_acker.shared_spout("orders")
    for message_id in "ab":
        async with spout.emit(message_id):
            pass
    with caplog.at_level(logging.WARNING, "acker_client"):
        async with aclosing(spout.completions(until=0)) as completions:
            async for _ in completions:
                break
    assert "its 2 completions are not released and come again" in caplog.text
    assert service.completions("orders") == ["a", "b"]


def test_topologies_are_created_read_changed_and_deleted(acker, service):
    made = acker.topologies.create("default", message_timeout=90, dedupe_window=600.0001)
    assert (made.name, made.message_timeout, made.dedupe_window) == ("default", 90.0, 600.001)
    assert (made.root_details, made.trace, made.end_on) == (True, 0, "first_fail")
    assert (made.root_details, made.trace, made.grace) == (True, 0, 0)
    assert acker.topologies.get("default") == made
    acker.topologies.delete("default", force=True, discard=True)
    assert dict(service.requests[-1].url.params) == {"force": "true", "discard": "true"}
    with pytest.raises(acker_error("UnknownTopology")):
        acker.topologies.get("default")


def test_a_deletion_whose_answer_is_lost_is_done_where_its_repeat_finds_nothing(acker, service):
    acker.topologies.get("default")
    service.faults += [lost_reply(httpx.ReadTimeout("lost"))]
    acker.topologies.delete("default")
    assert [request.method for request in service.requests[-2:]] == ["DELETE", "DELETE"]
    with pytest.raises(acker_error("UnknownTopology")):
        acker.topologies.delete("default")


@pytest.mark.parametrize("fault", [REFUSED, httpx.Response(429, headers={"Retry-After": "0"})], ids=["refused", "429"])
def test_a_deletion_that_was_not_tried_before_says_that_there_is_nothing(acker, service, fault):
    acker.topologies.delete("default")
    service.faults += [fault]
    with pytest.raises(acker_error("UnknownTopology")):
        acker.topologies.delete("default")


def test_a_new_topology_has_an_automatic_window_unless_it_is_given_another(acker, service):
    service.exists = False
    made = acker.topologies.create("default", message_timeout=90)
    assert (made.dedupe_window, made.dedupe_automatic) == (90, True)
    changed = acker.topologies.create("default", message_timeout=20)
    assert (changed.dedupe_window, changed.dedupe_automatic) == (20, True)


@pytest.mark.parametrize("window", [0, 600])
def test_a_window_that_a_topology_has_stays_until_another_is_given(acker, window):
    acker.topologies.create("default", dedupe_window=window)
    kept = acker.topologies.create("default", message_timeout=90)
    assert (kept.dedupe_window, kept.dedupe_automatic) == (window, False)
    changed = acker.topologies.create("default", dedupe_window="automatic")
    assert (changed.dedupe_window, changed.dedupe_automatic) == (90, True)


@pytest.mark.parametrize("window", [0, 600])
def test_a_new_topology_may_have_a_window_of_ones_own(acker, service, window):
    service.exists = False
    made = acker.topologies.create("default", dedupe_window=window)
    assert (made.dedupe_window, made.dedupe_automatic) == (window, False)


def acker_error(name: str) -> type[Exception]:
    import acker_client  # noqa: PLC0415

    return getattr(acker_client, name)


@pytest.mark.anyio
async def test_an_async_client_has_them_too(async_acker):
    assert (await async_acker.topologies.create("default", retention=120)).retention == 120
    changed = await async_acker.topologies.create("default", root_details=False, trace=0.5, end_on="all_ended")
    assert (changed.retention, changed.root_details, changed.trace) == (120, False, 0.5)
    assert changed.end_on is EndOn.ALL_ENDED
    changed = await async_acker.topologies.create("default", root_details=False, trace=0.5, grace=2.5)
    assert (changed.retention, changed.root_details, changed.trace, changed.grace) == (120, False, 0.5, 2.5)
    with pytest.raises(acker_error("UnknownRoot")):
        await async_acker.roots.get("00000000000000aa")
    await async_acker.topologies.delete("default")
    with pytest.raises(acker_error("UnknownTopology")):
        await async_acker.topologies.get("default")


def test_a_root_is_read(acker, time):
    with acker.shared_spout("orders").emit("42") as root:
        headers = root.headers()
    found = acker.roots.get(root.root_id)
    assert (found.root_id, found.state, found.outcome) == (root.root_id, "pending", None)
    assert found.deadline_at == time.time() + 30
    acker.receive(headers, component="c").ack()
    assert (acker.roots.get(root.root_id).state, acker.roots.get(root.root_id).outcome) == ("finished", "acked")


def test_a_root_is_awaited_by_polls_until_it_ends(acker, service):
    with acker.shared_spout("orders").emit("42", message_timeout=100) as root:
        root.headers()
    service.requests.clear()
    assert acker.roots.get(root.root_id, wait=70).state == "pending"
    assert acker.roots.get(root.root_id, wait=600).outcome == "timed_out"
    assert [request.url.params["wait_ms"] for request in service.requests] == ["60000", "10000", "60000"]


@pytest.mark.anyio
async def test_a_program_of_tasks_awaits_a_root_likewise(async_acker):
    async with async_acker.shared_spout("orders").emit("42") as root:
        root.headers()
    assert (await async_acker.roots.get(root.root_id, wait=1)).state == "pending"
    assert (await async_acker.roots.get(root.root_id, wait=600)).outcome == "timed_out"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"message_timeout": 0.01}, "message_timeout must be a number of seconds from 0.1"),
        ({"ackers": "4"}, "ackers must be a whole number"),
        ({"retention": "1"}, "retention must be a number"),
        ({"dedupe_window": "auto"}, "dedupe_window must be a number"),
        ({"root_details": "no"}, "root_details must be true or false"),
        ({"end_on": "all"}, "end_on must be 'first_fail' or 'all_ended'"),
        ({"grace": -1}, "grace must be a number of seconds from 0"),
        ({"trace": 2}, "trace must be a number from 0 to 1"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(given, words):
    memory = MemoryAcker()
    with memory.acker() as acker, pytest.raises(acker_error("UsageError"), match=words):
        acker.topologies.create("default", **given)
    assert memory.requests == []
