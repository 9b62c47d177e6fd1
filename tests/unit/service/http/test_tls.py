"""TLS of one connection, on a transport that the test holds: what holds no request is bounded, and delays nobody."""

import asyncio
import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from acker_service.http.certificate import Certificate
from acker_service.http.connection import Connection, limited
from acker_service.http.load_shedding import LoadLimits
from acker_service.http.tls import SLICE, TlsConnection, encrypted
from acker_service.metrics.metrics import Form, Metrics
from uvicorn.server import ServerState

from tests.support.certificates import CertificateFiles, issue
from tests.support.connections import REQUEST, Transport
from tests.support.raw_http import unchecked
from tests.support.tls_records import CIPHER, RecordWriter

pytestmark = pytest.mark.anyio

MAX_HEADER_BYTES = 1_024
BODY_BYTES = 150_000
HEAD = b"POST /ack HTTP/1.1\r\nHost: acker\r\nContent-Length: %d\r\n\r\n"


class Unencrypted:
    """A connection of the acker, whose transport the test holds, before its client has said anything.

    ``parts`` are the sizes of what the connection above was given, and ``bodies`` the requests' bodies.
    """

    def __init__(self, files: CertificateFiles) -> None:
        self.transport, self.metrics = Transport(), Metrics()
        self.parts, self.bodies = list[int](), list[bytes]()
        self.server = self._serve(files)
        self.server.connection_made(self.transport)

    def _serve(self, files: CertificateFiles) -> TlsConnection:
        limits, parts = LoadLimits(max_header_bytes=MAX_HEADER_BYTES), self.parts
        made: type[Connection] = limited(limits, self.metrics.http, asyncio.Event(), None)

        class Noting(made):  # type: ignore[valid-type, misc]
            def data_received(self, data: bytes) -> None:
                parts.append(len(data))
                super().data_received(data)

        config = uvicorn.Config(self._app, http=Noting, ws="none", log_config=None, interface="asgi3")
        config.load()
        above = encrypted(Noting, Certificate(files.certificate, files.key))
        return above(config=config, server_state=ServerState(), app_state={})

    async def _app(self, _scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


class Client(Unencrypted):
    """A client that has shaken hands with a connection of the acker."""

    def __init__(
        self, files: CertificateFiles, key_log: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> None:
        super().__init__(files)
        context = unchecked()
        context.minimum_version = context.maximum_version = version
        context.keylog_filename = str(key_log)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._shake_hands()

    async def send(self, data: bytes) -> None:
        """Let encrypted bytes arrive in one piece, and wait until nothing is left to do."""
        self.server.data_received(data)
        for _ in range(30 + 3 * len(data) // SLICE):
            await asyncio.sleep(0)

    def encrypt(self, data: bytes) -> bytes:
        """Return records of this client's library."""
        self._tls.write(data)
        return self._outgoing.read()

    def answers(self) -> bytes:
        """Return all that the acker has sent and this has not returned before."""
        self._incoming.write(self.transport.written)
        self.transport.written = b""
        found = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while part := self._tls.read(65_536):
                found += part
        return found

    @property
    def is_aborted(self) -> bool:
        return "abort" in self.transport.told

    def refused(self) -> float:
        """Return how many heads were counted as too large."""
        lines = self.metrics.write(Form.TEXT, None).decode().splitlines()
        shown = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return float(shown.get('acker_heads_refused_total{code="too_large"}', 0))

    def _shake_hands(self) -> None:
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            if self._outgoing.pending:
                self.server.data_received(self._outgoing.read())
            self._incoming.write(self.transport.written)
            self.transport.written = b""
        assert self._tls.version() is not None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def client(files: CertificateFiles, tmp_path: Path) -> Client:
    return Client(files, tmp_path / "keys.log")


@pytest.fixture
def records(client: Client, tmp_path: Path) -> RecordWriter:
    assert client._tls.cipher() == (CIPHER, "TLSv1.3", 256)
    return RecordWriter(tmp_path / "keys.log")


class TestWhatHoldsNoRequest:
    @pytest.mark.parametrize("options", [{}, {"asks_back": True}], ids=["plain", "asks back"])
    async def test_a_client_that_goes_on_changing_its_key_is_given_up(
        self, client: Client, records: RecordWriter, options: dict[str, bool]
    ) -> None:
        for _ in range(1_000):
            if client.is_aborted:
                break
            await client.send(records.change_key(**options))
        assert client.is_aborted
        assert client.refused() == 1

    async def test_so_is_one_that_sends_a_little_of_a_request_between(
        self, client: Client, records: RecordWriter
    ) -> None:
        await client.send(records.write(HEAD % BODY_BYTES))
        for _ in range(1_000):
            if client.is_aborted:
                break
            changes = b"".join(records.change_key() for _ in range(20))
            await client.send(changes + records.write(b"x"))
        assert client.is_aborted

    async def test_so_is_one_whose_records_are_mostly_padding(self, client: Client, records: RecordWriter) -> None:
        for byte in (HEAD % BODY_BYTES)[:20]:
            await client.send(records.write(bytes([byte]), padding=16_000))
        assert client.is_aborted


class TestWhatIsTaken:
    async def test_a_client_may_change_its_key_with_every_request(self, client: Client, records: RecordWriter) -> None:
        for _ in range(1_000):
            await client.send(records.change_key() + records.write(REQUEST))
        assert not client.is_aborted
        assert client.answers().count(b" 200 OK") == 1_000

    async def test_an_answer_follows_a_change_that_asks_for_one_back(
        self, client: Client, records: RecordWriter
    ) -> None:
        for _ in range(3):
            await client.send(records.change_key(asks_back=True) + records.write(REQUEST))
            assert client.answers().count(b" 200 OK") == 1

    async def test_small_requests_may_be_padded(self, client: Client, records: RecordWriter) -> None:
        for _ in range(100):
            await client.send(records.write(REQUEST, padding=4_000))
        assert client.answers().count(b" 200 OK") == 100

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_a_body_may_come_in_records_of_a_byte(
        self, files: CertificateFiles, tmp_path: Path, version: ssl.TLSVersion
    ) -> None:
        client, body = Client(files, tmp_path / "keys.log", version), bytes(range(250)) * 20
        await client.send(client.encrypt(HEAD % len(body)))
        await client.send(b"".join(client.encrypt(body[at : at + 1]) for at in range(len(body))))
        assert client.bodies == [body]

    async def test_a_record_larger_than_a_head_may_come_byte_by_byte(self, client: Client) -> None:
        body = bytes(range(250)) * 64
        await client.send(client.encrypt(HEAD % len(body)))
        record = client.encrypt(body)
        for at in range(len(record)):
            client.server.data_received(record[at : at + 1])
        await client.send(b"")
        assert client.bodies == [body]


class TestSlices:
    async def test_only_a_slice_is_decrypted_at_once_and_nothing_more_received_meanwhile(self, client: Client) -> None:
        body = bytes(range(250)) * (BODY_BYTES // 250)
        await client.send(client.encrypt(HEAD % len(body)))
        client.parts.clear()
        arrived = client.encrypt(body)
        client.server.data_received(arrived)
        assert sum(client.parts) <= SLICE
        assert client.transport.told == ["pause"]
        await client.send(b"")
        for _ in range(100):
            await asyncio.sleep(0)
        assert client.bodies == [body]
        assert max(client.parts) <= SLICE + 16_384
        assert client.transport.told[-1] == "resume"

    async def test_what_the_connection_above_pauses_stays_paused(self, client: Client) -> None:
        client.server.data_received(client.encrypt(HEAD % BODY_BYTES + bytes(3 * SLICE)))
        client.server.resume_reading()
        assert client.transport.told == ["pause"], "not before all is decrypted"
        client.server.pause_reading()
        await client.send(b"")
        assert sum(client.parts) > 3 * SLICE
        assert client.transport.told == ["pause", "pause"]
        client.server.resume_reading()
        assert client.transport.told == ["pause", "pause", "resume"]

    async def test_what_is_left_of_a_connection_that_is_gone_is_forgotten(self, client: Client) -> None:
        client.server.data_received(client.encrypt(HEAD % BODY_BYTES + bytes(BODY_BYTES // 2)))
        client.transport.abort()
        client.transport.close()
        client.server.connection_lost(None)
        parts = list(client.parts)
        for _ in range(100):
            await asyncio.sleep(0)
        assert client.parts == parts
        assert not client.server._left


class TestWithoutTls:
    @pytest.mark.parametrize(
        "method", ["GET", "HEAD", "POST", "PUT", "CONNECT", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY"]
    )
    @pytest.mark.parametrize("size", [1, 5, 100])
    async def test_a_request_is_answered_what_to_do(self, files: CertificateFiles, method: str, size: int) -> None:
        client = Unencrypted(files)
        request = f"{method} /v1/topologies HTTP/1.1\r\nHost: acker\r\n\r\n".encode()
        for at in range(0, len(request), size):
            client.server.data_received(request[at : at + size])
        head, _, body = client.transport.written.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["detail"] == "this address speaks TLS: use https"
        assert client.transport.told == ["close"]

    @pytest.mark.parametrize(
        "sent", [b"\x00\x01\x02\x03\x04\x05", b"\x16\x03\x01\x00\x05GET /", b"\x80GET / HTTP/1.1", b"123 GET /"]
    )
    async def test_what_is_no_request_is_not(self, files: CertificateFiles, sent: bytes) -> None:
        client = Unencrypted(files)
        client.server.data_received(sent)
        assert b"HTTP" not in client.transport.written
        assert client.transport.told == ["close"]
