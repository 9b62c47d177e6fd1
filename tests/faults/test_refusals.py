"""Whatever Redis says instead of an answer, callers hear that the store is not available, and it heals by itself."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.caller import Caller, ack, init
from tests.support.proxy import Fate, Proxy
from tests.support.servers import AckerProcess, acker_serve
from tests.support.stores import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

E = 9
BUSY = [
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "ASK 3999 127.0.0.1:1",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "NOREPLICAS Not enough good replicas to write.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'fcall' command",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    "ERR Script attempted to access a non local key in a cluster node script: acker, on @user_function:1.",
    "ERR something that nobody has heard of",
]
NOT_BEGUN = ["MOVED 3999 127.0.0.1:1", "READONLY You can't write against a read only replica."]


@pytest.fixture(scope="module")
def proxies() -> list[Proxy]:
    return []


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory, proxies: list[Proxy]) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("refusals")
    with running("valkey", folder, proxies=proxies) as store, acker_serve(folder, "--redis-url", store.url) as acker:
        yield acker


@pytest.fixture
async def call(acker: AckerProcess) -> AsyncIterator[Caller]:
    async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
        yield Caller(http)


def is_apply(sent: bytes) -> bool:
    return b"acker_apply" in sent


async def began(call: Caller, root: int) -> str:
    await call.post(init(root, E, E + 1))
    return str((await call.root(root))["ack_val"])


@pytest.mark.parametrize("words", BUSY)
async def test_what_redis_says_instead_is_no_fault_of_the_service_and_passes(
    call: Caller, proxies: list[Proxy], words: str
) -> None:
    root = BUSY.index(words) + 1
    before = await began(call, root)
    proxies[0].say(f"-{words}\r\n".encode(), is_apply)
    refused = await call.post(ack(root, E))
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert (refused.headers["Retry-After"], refused.json()["retryable"]) == ("1", False)
    assert int((await call.root(root))["ack_val"], 16) == int(before, 16) ^ E, "sent once, and not again"


@pytest.mark.parametrize("words", NOT_BEGUN)
async def test_what_a_server_refused_because_another_has_the_key_is_sent_once_more(
    call: Caller, proxies: list[Proxy], words: str
) -> None:
    root = 100 + NOT_BEGUN.index(words)
    await began(call, root)
    proxies[0].say(f"-{words}\r\n".encode(), is_apply)
    answer = await call.post(ack(root, E), key=f"once-more-{root}")
    assert answer.status_code == 200
    assert proxies[0].fallen[-1] is Fate.CHANGE


async def test_a_store_that_is_away_is_waited_for(acker: AckerProcess, call: Caller, proxies: list[Proxy]) -> None:
    proxies[0].after(0, Fate.DROP)

    async def is_away() -> bool:
        answer = await call.post(init(200, E), key="away")
        assert answer.status_code in {200, 503}, answer.text
        return answer.status_code == 503

    await eventually(is_away)
    proxies[0].after(1)

    async def is_back() -> bool:
        answer = await call.post(init(200, E), key="away")
        assert answer.status_code in {200, 503}, answer.text
        return answer.status_code == 200

    await eventually(is_back)
    assert acker.process.poll() is None
