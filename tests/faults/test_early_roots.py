"""Acks and fails that come before their init: bounded, and refused like inits where the store is full."""

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.operations import Ack, Fail, Operation, ResetTimeout
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.http.keys import digest_of

from bench.servers import Member
from tests.support.caller import Caller, Document, ack, compact_ack, fail, init, reset_timeout
from tests.support.servers import acker_serve
from tests.support.stores import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
MEGABYTE = 1_000_000
ROOM = 20 * MEGABYTE
UNKNOWN = 1 << 40
WEEK_MS = 604_800_000
MAX_EARLY = 40
MOST_ACKERS = 128
REASON = "r" * 1_000
LONGEST = "☃" * 1_024
"""The longest reason that is taken, in characters of three bytes."""
FOUR_BYTES_EACH = "\N{GOTHIC LETTER AHSA}" * 1_024
ADMIN, BOLT = "acker_operator", "acker_bolt"
"""Keys: of everything, and of acks and fails of one topology."""
LIMIT, TOPOLOGIES = 60 << 20, 3
"""What Redis may use where a key attacks, and the topologies there: the attacked one, another, and the default."""
TEXTS_RATIO, OTHER_RATIO = 0.75, 0.1
"""Up to which part of it long reasons are kept, and what records, outcomes and short reasons take besides."""
_NUMBERS = count(2 * UNKNOWN)


@dataclass(frozen=True)
class Stage:
    """An acker, and the Valkey below it."""

    call: Caller
    valkey: Member

    @property
    def used_memory(self) -> int:
        return int(dict(self.valkey.ask("INFO", "memory"))["used_memory"])

    @property
    def stored_memory(self) -> int:
        """What is used, without the buffers of connections, which come and go."""
        memory = dict(self.valkey.ask("INFO", "memory"))
        return int(memory["used_memory"]) - int(memory["mem_clients_normal"])

    def leave_room(self, ratio: float) -> None:
        """Let what is used be this part of what may be used."""
        self.valkey.ask("CONFIG", "SET", "maxmemory", int(self.used_memory / ratio))

    async def is_full(self) -> bool:
        """Whether an init is refused now."""
        return await Caller(self.call.http).state(init(next(_NUMBERS))) == "store_full"

    async def has_room(self) -> bool:
        return not await self.is_full()


@contextlib.contextmanager
def staged(folder: Path, *options: str, kind: str = "valkey") -> Iterator[tuple[str, Member]]:
    with running(kind, folder) as store:
        member = store.members[0]
        with acker_serve(folder / "acker", "--redis-url", store.url, *options) as acker:
            yield acker.url, member


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Member]]:
    with staged(tmp_path_factory.mktemp("full")) as shared:
        yield shared


@pytest.fixture
async def stage(shared: tuple[str, Member], request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A new topology, in a store that has room."""
    url, member = shared
    member.ask("CONFIG", "SET", "maxmemory", 0)
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        stage = Stage(Caller(http, request.node.name.partition("[")[0] + str(next(_NUMBERS))), member)
        await eventually(stage.has_room)
        yield stage


@pytest.fixture
async def full(stage: Stage) -> Stage:
    """A store that the acker has seen to be full; Redis itself would still take something. Two roots are pending."""
    await stage.call.put(dedupe_window_ms=60_000)
    assert await stage.call.states(init(1, E, F), init(2, E), ack(3, E)) == ["pending", "pending", "early"]
    stage.valkey.ask("SET", "ballast", "x" * ROOM)  # beside it, buffers of connections do not count
    stage.leave_room(0.95)
    await eventually(stage.is_full)
    return stage


BEGIN_A_TREE = {
    "an ack": ack(UNKNOWN, E),
    "an ack with children": ack(UNKNOWN, E, F),
    "a compact ack": compact_ack(UNKNOWN, E),
    "a fail": fail(UNKNOWN, reason=REASON),
}


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
async def test_a_full_store_begins_no_tree_by_whatever_operation(full: Stage, key: str | None) -> None:
    for op in BEGIN_A_TREE.values():
        answer = await full.call.post(op, key=key)
        assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "store_full", True)
        assert answer.headers["Retry-After"]
    answer = await full.call.batch(*BEGIN_A_TREE.values(), key=key)
    assert answer.json() == {"accepted": 0, "results": ["store_full"] * len(BEGIN_A_TREE)}
    assert (await full.call.root(UNKNOWN))["code"] == "unknown_root"


async def test_what_is_known_goes_on_in_a_full_store(full: Stage) -> None:
    ops = (ack(1, E), ack(UNKNOWN, E), fail(2), ack(3, F), reset_timeout(1), reset_timeout(UNKNOWN), ack(1, F))
    states = ["pending", "store_full", "failed", "early", "pending", "unknown", "acked"]
    assert await full.call.states(*ops) == states
    assert sorted(await full.call.outcomes()) == [(1, "acked"), (2, "failed")]
    assert await full.call.states(ack(1, E), fail(2), compact_ack(UNKNOWN, 0)) == ["finished", "finished", "early"]


async def test_acks_of_pending_roots_take_little_memory_in_a_full_store_and_the_roots_still_end(full: Stage) -> None:
    """Edges are remembered up to a twentieth of what Redis may use, and acked twice beyond it they undo themselves."""
    before, most, states = full.stored_memory, int(dict(full.valkey.ask("INFO", "memory"))["maxmemory"]), Counter[str]()
    for _ in range(2):
        for attempt in range(20):
            numbers = range(1_000_000 + attempt * 1_000, 1_001_000 + attempt * 1_000)
            states.update(await full.call.states(*(ack(2, number, UNKNOWN + number) for number in numbers)))
    assert set(states) == {"pending", "duplicate"}
    assert full.stored_memory - before < most / 20 + MEGABYTE / 4
    assert await full.call.states(ack(1, E), ack(1, F), ack(1, F)) == ["pending", "acked", "finished"]


async def test_an_ack_that_was_refused_can_be_sent_again_once_there_is_room(full: Stage) -> None:
    """Refused it left nothing behind: not its edge among those acked, nor its request among those known."""
    ops = (ack(UNKNOWN, E), fail(UNKNOWN + 1))
    assert await full.call.state(ops[0], key="single") == "store_full"
    assert await full.call.states(*ops, key="batch") == ["store_full"] * 2
    full.leave_room(0.1)
    await eventually(full.has_room)
    assert await full.call.state(ops[0], key="single") == "early"
    assert await full.call.states(init(UNKNOWN, E), *ops, key="new") == ["acked", "finished", "early"]


async def test_a_repeat_says_of_a_refused_ack_that_it_was_not_applied(full: Stage) -> None:
    ops = (ack(1, E), ack(UNKNOWN, E), fail(UNKNOWN + 4))
    assert await full.call.states(*ops, key="k") == ["pending", "store_full", "store_full"]
    again = await full.call.states(*ops, key="k")
    assert again == ["pending", "store_full", "store_full"]


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Stage]:
    """A topology in a store of the test's own: what it leaves there takes no memory from other tests."""
    with staged(tmp_path) as (url, member):
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            yield Stage(Caller(http, "flood"), member)


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
async def test_early_fails_do_not_take_the_memory_from_the_inits_of_others(own: Stage, key: str | None) -> None:
    """As fast as one can: some go through before the acker has seen that the store is full."""
    stage = own
    await stage.call.put()
    stage.valkey.ask("CONFIG", "SET", "maxmemory", stage.used_memory + ROOM)
    headers = {"Content-Type": CONTENT_TYPE}
    for attempt in range(15):
        roots = range(1 + attempt * 3_000, 1 + (attempt + 1) * 3_000)
        body = encode_packed([Fail(root_id=root, reason=f"{root:01000}") for root in roots])
        keyed = {} if key is None else {routes.IDEMPOTENCY_KEY: f"{key}{attempt}"}
        answer = await stage.call.http.post(
            routes.operation(stage.call.topology, "batch"), content=body, headers=headers | keyed
        )
        assert answer.status_code in {200, 503}, answer.text
    limit = int(stage.valkey.ask("CONFIG", "GET", "maxmemory")["maxmemory"])
    assert stage.used_memory <= limit + ROOM / 4


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    entries = [
        {"name": "operator", "sha256": digest_of(ADMIN).hex(), "scope": "admin", "topologies": "*"},
        {"name": "bolt", "sha256": digest_of(BOLT).hex(), "scope": "ack", "topologies": ["flood"]},
    ]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": entries}))
    return file


async def limit_memory(member: Member, operator: httpx.AsyncClient) -> None:
    """Let Redis use no more than `LIMIT`, and wait until the acker has seen it."""
    member.ask("CONFIG", "SET", "maxmemory", LIMIT)

    async def is_seen() -> bool:
        store = (await operator.get("/v1/status")).json()["store"]
        return int(store["early_max_bytes"]) * TOPOLOGIES * 1.25 <= LIMIT / 10

    await eventually(is_seen)


def early_fail(number: int) -> Operation:
    return Fail(root_id=number, reason=LONGEST, component="c" * 128)


def early_ack(number: int) -> Operation:
    return Ack(root_id=number, ack_val=1, edge_id=number)


def ack_of_one_root(number: int) -> Operation:
    return Ack(root_id=UNKNOWN, ack_val=number, edge_id=number)


@pytest.mark.parametrize(
    ("make", "dedupe_window_ms"),
    [
        pytest.param(early_fail, 0, id="fails, no dedupe window"),
        pytest.param(early_fail, WEEK_MS, id="fails, a dedupe window"),
        pytest.param(early_ack, 0, id="acks, no dedupe window"),
        pytest.param(early_ack, WEEK_MS, id="acks, a dedupe window"),
        pytest.param(ack_of_one_root, WEEK_MS, id="acks of one root, a dedupe window"),
    ],
)
async def test_a_key_of_one_topology_takes_no_memory_from_the_others(
    tmp_path: Path, keys_file: Path, make: Callable[[int], Operation], dedupe_window_ms: int
) -> None:
    """Its early roots take a tenth of what Redis may use, at most, and inits of other topologies go on."""
    with staged(tmp_path, "--keys-file", str(keys_file)) as (url, member):
        async with (
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(ADMIN)) as operator,
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(BOLT)) as bolt,
        ):
            attacked, other = Stage(Caller(operator, "flood"), member), Caller(operator, "other")
            await attacked.call.put(message_timeout_ms=WEEK_MS, dedupe_window_ms=dedupe_window_ms)
            await other.put()
            await limit_memory(member, operator)
            assert await other.states(*(init(root, E) for root in range(1, 101))) == ["pending"] * 100
            before, states = attacked.stored_memory, Counter[str]()
            for attempt in range(34):
                body = encode_packed([make(root) for root in range(1 + attempt * 1_000, 1_001 + attempt * 1_000)])
                headers = {"Content-Type": CONTENT_TYPE, routes.IDEMPOTENCY_KEY: str(attempt)}
                answer = await bolt.post(routes.operation("flood", "batch"), content=body, headers=headers)
                states.update(answer.json()["results"])
                assert await other.state(init(next(_NUMBERS), E)) == "pending"
            assert states["early"] > 500
            assert states["store_full"] > 500
            assert attacked.stored_memory - before < LIMIT / 10


@pytest.mark.parametrize(
    "spread", [pytest.param(1, id="of one pending root"), pytest.param(40_000, id="of many pending roots")]
)
async def test_edges_of_one_topology_take_no_memory_from_the_others(
    tmp_path: Path, keys_file: Path, spread: int
) -> None:
    """They take a quarter of what Redis may use, at most; its acks are refused beyond, and all others go on."""
    with staged(tmp_path, "--keys-file", str(keys_file)) as (url, member):
        async with (
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(ADMIN)) as operator,
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(BOLT)) as bolt,
        ):
            attacked, other = Stage(Caller(operator, "flood"), member), Caller(operator, "other")
            await attacked.call.put(message_timeout_ms=WEEK_MS, dedupe_window_ms=WEEK_MS)
            await other.put(dedupe_window_ms=60_000)
            await limit_memory(member, operator)
            for first in range(1, spread + 1, 10_000):
                inits = (init(root, F) for root in range(first, min(first + 10_000, spread + 1)))
                assert set(await attacked.call.states(*inits)) == {"pending"}
            before, states = attacked.stored_memory, Counter[str]()
            for attempt in range(30):
                numbers = range(1 + attempt * 9_000, 1 + (attempt + 1) * 9_000)
                acks = [
                    Ack(root_id=1 + number % spread, ack_val=number << 8, edge_id=number << 8) for number in numbers
                ]
                body = encode_packed(acks)
                headers = {"Content-Type": CONTENT_TYPE, routes.IDEMPOTENCY_KEY: str(attempt)}
                answer = await bolt.post(routes.operation("flood", "batch"), content=body, headers=headers)
                states.update(answer.json()["results"])
                root = next(_NUMBERS)
                assert await other.states(init(root, E), ack(root, E), key=f"other-{root}") == ["pending", "acked"]
            assert set(states) == {"pending", "store_full"}
            assert min(states.values()) > 20_000
            assert attacked.stored_memory - before < LIMIT / 4
            ops = (ack(1, UNKNOWN), init(UNKNOWN + 1, E), compact_ack(1, E), fail(1))
            assert await attacked.call.states(*ops) == ["store_full", "store_full", "pending", "failed"]


def reset(number: int) -> Operation:
    return ResetTimeout(root_id=1 + number % MOST_ACKERS)


def refused_ack(number: int) -> Operation:
    return Ack(root_id=UNKNOWN + number, ack_val=1)


@pytest.mark.parametrize(
    "make",
    [pytest.param(reset, id="of which nothing is refused"), pytest.param(refused_ack, id="of which all is refused")],
)
async def test_idempotency_keys_of_one_topology_take_no_memory_from_the_others(
    tmp_path: Path, keys_file: Path, make: Callable[[int], Operation]
) -> None:
    """They take a quarter of what Redis may use, at most; beyond it requests with a new key are refused."""
    options = ("--keys-file", str(keys_file), "--max-early", str(MOST_ACKERS))
    with staged(tmp_path, *options) as (url, member):
        async with (
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(ADMIN)) as operator,
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(BOLT)) as bolt,
        ):
            attacked, other = Stage(Caller(operator, "flood"), member), Caller(operator, "other")
            await attacked.call.put(ackers=MOST_ACKERS, message_timeout_ms=WEEK_MS)
            await other.put()
            inits = [init(root, E) for root in range(1, MOST_ACKERS + 1)]
            assert await attacked.call.states(*inits) == ["pending"] * MOST_ACKERS
            await limit_memory(member, operator)

            async def asked(operations: list[Operation], key: str | None) -> list[str]:
                keyed = {} if key is None else {routes.IDEMPOTENCY_KEY: key}
                headers = {"Content-Type": CONTENT_TYPE} | keyed
                body = encode_packed(operations)
                answer = await bolt.post(routes.operation("flood", "batch"), content=body, headers=headers)
                return list(answer.json()["results"])

            before, first = attacked.stored_memory, await asked([make(number) for number in range(MOST_ACKERS)], "0")
            for attempt in range(1, 900):
                numbers = range(attempt * MOST_ACKERS, (attempt + 1) * MOST_ACKERS)  # one in each shard
                await asked([make(number) for number in numbers], str(attempt))
                if attempt % 30 == 0:
                    root = next(_NUMBERS)
                    assert await other.states(init(root, E), ack(root, E), key=f"other-{root}") == ["pending", "acked"]
            assert LIMIT / 16 < attacked.stored_memory - before < LIMIT / 4
            resets = [reset(number) for number in range(MOST_ACKERS)]
            assert await asked(resets, "new") == ["store_full"] * MOST_ACKERS
            assert await asked(resets, None) == ["pending"] * MOST_ACKERS
            assert set(first) == {"pending" if make is reset else "early"}
            assert await asked([make(number) for number in range(MOST_ACKERS)], "0") == first
            assert await attacked.call.state(init(UNKNOWN + 1, E)) == "store_full"


async def told_reasons(call: Caller) -> Counter[str]:
    """Read and release all completions, and return their reasons."""
    found = Counter[str]()
    while (page := await call.completions(limit=500))["completions"]:
        found.update(done["reason"] for done in page["completions"])
        await call.release(page["cursor"])
    return found


def plain_fail(number: int) -> Operation:
    return Fail(root_id=number, reason=FOUR_BYTES_EACH, component="c" * 128)


def fail_of_an_edge(number: int) -> Operation:
    return Fail(root_id=number, reason=FOUR_BYTES_EACH, component="c" * 128, ack_val=number << 20, edge_id=number)


@pytest.mark.parametrize(
    ("make", "end_on", "answer"),
    [
        pytest.param(plain_fail, "first_fail", "failed", id="roots that end"),
        pytest.param(fail_of_an_edge, "all_ended", "pending", id="roots that wait for all of their edges"),
    ],
)
async def test_fails_of_one_topology_take_no_memory_from_the_others(
    tmp_path: Path, keys_file: Path, make: Callable[[int], Operation], end_on: str, answer: str
) -> None:
    """Long reasons take three quarters of what Redis may use, at most; each fail is told, and all others go on."""
    with staged(tmp_path, "--keys-file", str(keys_file)) as (url, member):
        async with (
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(ADMIN)) as operator,
            httpx.AsyncClient(base_url=url, timeout=20, headers=bearer(BOLT)) as bolt,
        ):
            attacked, other = Stage(Caller(operator, "flood"), member), Caller(operator, "other")
            await attacked.call.put(message_timeout_ms=WEEK_MS, end_on=end_on)
            await other.put()
            await limit_memory(member, operator)
            assert set(await attacked.call.states(*(init(root, E) for root in range(1, 10_001)))) == {"pending"}
            for first in range(1, 10_001, 250):
                body = encode_packed([make(root) for root in range(first, first + 250)])
                headers = {"Content-Type": CONTENT_TYPE}
                sent = await bolt.post(routes.operation("flood", "batch"), content=body, headers=headers)
                assert sent.json()["results"] == [answer] * 250
                assert await other.state(init(next(_NUMBERS), E)) == "pending"
            assert attacked.stored_memory < (TEXTS_RATIO + OTHER_RATIO) * LIMIT
            if make is fail_of_an_edge:
                for first in range(1, 10_001, 1_000):
                    ends = (ack(root, root << 20 ^ E) for root in range(first, first + 1_000))
                    assert set(await attacked.call.states(*ends)) == {"failed"}
            assert attacked.stored_memory < (TEXTS_RATIO + OTHER_RATIO) * LIMIT
            reasons = await told_reasons(attacked.call)
            assert reasons.total() == 10_000
            assert set(reasons) == {FOUR_BYTES_EACH, FOUR_BYTES_EACH[:64]}


@pytest.mark.parametrize("form", ["packed", "JSON"])
@pytest.mark.parametrize("dedupe_window_ms", [0, 60_000], ids=["no dedupe window", "a dedupe window"])
async def test_early_acks_do_not_take_the_memory_from_the_inits_of_others(
    own: Stage, form: str, dedupe_window_ms: int
) -> None:
    """Small ones, of which a batch holds many; each leaves a record, and the edge that it acked."""
    await own.call.put(dedupe_window_ms=dedupe_window_ms)
    limit = own.used_memory + ROOM // 4
    own.valkey.ask("CONFIG", "SET", "maxmemory", limit)
    taken = set[str]()
    for attempt in range(12):
        roots = range(1 + attempt * 10_000, 1 + (attempt + 1) * 10_000)
        body = encode_packed([Ack(root_id=root, ack_val=root, edge_id=root) for root in roots])
        if form == "packed":
            headers = {"Content-Type": CONTENT_TYPE, routes.IDEMPOTENCY_KEY: str(attempt)}
            answer = await own.call.http.post(
                routes.operation(own.call.topology, "batch"), content=body, headers=headers
            )
            taken |= set(answer.json()["results"])
        else:
            taken |= set(await own.call.states(*(ack(root, root) for root in roots), key=str(attempt)))
    assert taken == {"early", "store_full"}
    assert own.used_memory <= limit + ROOM / 8


async def test_a_single_ack_is_refused_as_soon_as_redis_itself_has_no_memory(own: Stage) -> None:
    """Before the acker has seen that the store is full, and still at the moment when it is."""
    await own.call.put()
    assert await own.call.states(init(1, E, F), ack(3, E)) == ["pending", "early"]
    own.valkey.ask("CONFIG", "SET", "maxmemory", own.used_memory // 2)  # its clients' buffers come and go
    for op in BEGIN_A_TREE.values():
        assert await own.call.state(op) == await own.call.state(op, key="k") == "store_full"
    assert await own.call.states(ack(1, E), ack(3, F), ack(1, F)) == ["pending", "early", "acked"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Member]]]:
    """An acker over a cluster, and its servers."""
    folder = tmp_path_factory.mktemp("cluster")
    with (
        running("valkey-cluster", folder) as store,
        acker_serve(folder / "acker", "--redis-url", store.url, "--max-early", str(MAX_EARLY)) as acker,
    ):
        yield acker.url, store.members


async def test_in_a_cluster_acks_of_unknown_roots_are_refused_on_every_full_server(
    cluster: tuple[str, list[Member]],
) -> None:
    url, members = cluster
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        call = Caller(http, "wide")
        await call.put(ackers=16, message_timeout_ms=600_000)
        roots = range(1, 17)
        assert await call.states(*(init(root, root) for root in roots)) == ["pending"] * 16
        for member in members:
            used = int(dict(member.ask("INFO", "memory"))["used_memory"])
            member.ask("CONFIG", "SET", "maxmemory", used // 2)
        ops = [op for root in roots for op in (ack(UNKNOWN + root, E), fail(UNKNOWN + root), ack(root, root))]
        assert await call.states(*ops, key="k") == ["store_full", "store_full", "acked"] * 16
        for member in members:
            member.ask("CONFIG", "SET", "maxmemory", 0)

        async def is_taken() -> bool:
            return await call.state(ack(UNKNOWN + 1, E)) == "early"

        await eventually(is_taken)


async def test_in_a_cluster_the_shards_of_a_topology_take_equal_parts_of_its_early_roots(
    cluster: tuple[str, list[Member]],
) -> None:
    url, _ = cluster
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        call = Caller(http, "narrow")
        await call.put(ackers=8, message_timeout_ms=600_000)
        states = await call.states(*(fail(root) for root in range(1, 2 * MAX_EARLY + 1)))
        assert (states.count("early"), states.count("store_full")) == (MAX_EARLY, MAX_EARLY)


async def test_refused_requests_take_no_memory_however_many_there_are(full: Stage) -> None:
    before = full.used_memory
    for attempt in range(300):
        ops: list[Document] = [op for root in range(20) for op in (ack(UNKNOWN + root, E), fail(UNKNOWN + root))]
        assert set(await full.call.states(*ops, key=f"k{attempt}")) == {"store_full"}
    assert full.used_memory - before < MEGABYTE / 4


@pytest.fixture(scope="module")
def narrow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An acker that takes few early roots a topology."""
    with staged(tmp_path_factory.mktemp("narrow"), "--max-early", str(MAX_EARLY), "--tick-ms", "20") as (url, _):
        yield url


@pytest.fixture
async def narrow(narrow_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Caller]:
    """A new topology of it."""
    async with httpx.AsyncClient(base_url=narrow_url, timeout=20) as http:
        topology = Caller(http, request.node.name.partition("[")[0][:100])
        await topology.put(ackers=4, message_timeout_ms=600_000)
        yield topology


@pytest.mark.parametrize("op", [ack(0, E), fail(0)], ids=["acks", "fails"])
async def test_a_topology_takes_so_many_early_roots_and_no_more(narrow: Caller, op: Document) -> None:
    ops = [op | {"root_id": f"{root:016x}"} for root in range(1, 2 * MAX_EARLY + 1)]
    states = await narrow.states(*ops)
    assert (states.count("early"), states.count("store_full")) == (MAX_EARLY, MAX_EARLY)
    assert await narrow.state(op | {"root_id": f"{1_000:016x}"}) == "store_full"


async def test_inits_and_what_is_known_go_on_beyond_it_and_other_topologies_too(narrow: Caller) -> None:
    await narrow.states(*(ack(root, E) for root in range(1, 2 * MAX_EARLY + 1)))
    assert await narrow.states(init(1_000, E), ack(1_000, E), init(1_001, E, F)) == ["pending", "acked", "pending"]
    other = Caller(narrow.http, "beside")
    await other.put()
    assert await other.state(ack(1, E)) == "early"


async def test_there_is_room_again_once_early_roots_get_their_inits_or_are_dropped(narrow: Caller) -> None:
    await narrow.put(message_timeout_ms=100)
    await narrow.states(*(ack(root, E) for root in range(1, 2 * MAX_EARLY + 1)))

    async def all_dropped() -> bool:
        return int((await narrow.show())["counts"]["dropped"]) == MAX_EARLY

    await eventually(all_dropped)
    await narrow.put(message_timeout_ms=600_000)
    early = range(101, 101 + MAX_EARLY)
    assert await narrow.states(*(ack(root, E) for root in early)) == ["early"] * MAX_EARLY
    assert await narrow.states(*(init(root, E) for root in early)) == ["acked"] * MAX_EARLY
    assert await narrow.states(*(ack(root, E) for root in range(201, 201 + MAX_EARLY))) == ["early"] * MAX_EARLY
