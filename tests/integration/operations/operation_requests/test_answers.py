"""Every request to the five addresses is answered as it was recorded: by a server of ours, and by plain ASGI."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from acker_service.components import make_components
from acker_service.server import UvicornServer, opened
from acker_service.settings import Role, Settings

from tests.integration.operations.operation_requests import documents, table
from tests.support.asking import Asked, OverAsgi, OverHttp, Row, without_server
from tests.support.redis_side import flush
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

ANSWERS = table.read_answers()
NAMES = [row.name for row in table.ROWS]
FOR_ASGI = [row for row in table.ROWS if row.is_for_asgi]


@dataclass(frozen=True)
class Ackers:
    """The ackers of the table, and both ways to ask them."""

    asked: Asked
    over_http: OverHttp
    over_asgi: OverAsgi


@pytest.fixture(scope="module")
async def ackers(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ackers]:
    """Run the ackers in this process, on an empty store."""
    keys_file, urls, apps = table.write_keys(tmp_path_factory.mktemp("keys")), dict[str, str](), dict[str, Any]()
    async with contextlib.AsyncExitStack() as stack:
        for name, settings in table.ACKERS.items():
            keys = {"keys_file": keys_file} if name == table.KEYED else {}
            chosen = Settings(redis_url=valkey_url, role=Role.API, **settings, **keys)
            urls[name], apps[name] = await stack.enter_async_context(running(chosen, is_first=not urls))
        asked = Asked(urls, beside=table.BESIDE)
        await asked.set_up(table.SET_UP)
        yield Ackers(asked, OverHttp(urls), OverAsgi(apps))
    gc.unfreeze()


@contextlib.asynccontextmanager
async def running(settings: Settings, *, is_first: bool) -> AsyncIterator[tuple[str, Any]]:
    """Serve an acker until the block is left, and yield its address and application. The first empties the store."""
    parts, stopping = make_components(str(settings.redis_url), settings), asyncio.Event()
    if is_first:
        await flush(parts)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with opened(parts, settings, stopping) as config:
            server = UvicornServer(config, stopping, address="")
            serving = asyncio.create_task(server.serve([listener]))

            async def started() -> bool:
                return server.started

            await eventually(started)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", config.app
            stopping.set()
            server.should_exit = True
            await serving


@pytest.mark.parametrize("row", table.ROWS, ids=NAMES)
async def test_a_server_answers_as_recorded(ackers: Ackers, row: Row) -> None:
    told = await ackers.asked.ask(row, ackers.over_http)
    assert told == ANSWERS[row.name]
    assert json.dumps(told) == json.dumps(ANSWERS[row.name]), "the members are in another order"


@pytest.mark.parametrize("row", FOR_ASGI, ids=[row.name for row in FOR_ASGI])
async def test_plain_asgi_is_answered_as_a_server_answers(ackers: Ackers, row: Row) -> None:
    told = await ackers.asked.ask(row, ackers.over_asgi)
    assert told == without_server(ANSWERS[row.name])


def test_every_row_is_recorded_under_a_name_of_its_own() -> None:
    assert [*ANSWERS] == NAMES


def test_what_has_changed_since_7da1270_is_a_piece_of_the_document() -> None:
    assert documents.CHANGED.keys() <= json.loads(table.DOCUMENT.read_text())["without keys"].keys()


@pytest.mark.parametrize("acker", ["open", table.KEYED])
async def test_the_document_is_as_recorded(ackers: Ackers, acker: str) -> None:
    recorded = json.loads(table.DOCUMENT.read_text())
    expected = recorded["without keys"] | (recorded["with keys"] if acker == table.KEYED else {})
    found = documents.pieces(await ackers.asked.document(acker))
    assert found == expected
