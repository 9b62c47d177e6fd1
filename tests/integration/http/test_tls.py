"""`acker serve` over TLS: who reaches it, what it says to others, and how a certificate is renewed while it runs."""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from acker_client import Acker, AsyncAcker, RetriesExhausted

from tests.support.certificates import CertificateFiles, issue
from tests.support.exposition import read
from tests.support.raw_http import RawHttp, unchecked
from tests.support.servers import AckerProcess, acker_serve, run_acker
from tests.support.waiting import eventually_true

DEFAULT = "/v1/topologies/default"
HOW_MANY = [pytest.param((), id="one process"), pytest.param(("--processes", "2"), id="two processes")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=HOW_MANY)
def acker(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    files: CertificateFiles,
    valkey_url: str,
) -> Iterator[AckerProcess]:
    """An acker over TLS, which the tests leave as it is."""
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--redis-url", valkey_url, *files.options, *request.param) as running:
        yield running


def shown(acker: AckerProcess, *, name: str | None = "localhost") -> bytes | None:
    """Return the certificate that a new connection is shown; without a name, as one by address."""
    port = int(acker.url.rpartition(":")[2])
    with (
        contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as plain,
        unchecked().wrap_socket(plain, server_hostname=name) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True)


def end_to_end(client: Acker) -> str:
    spout = client.shared_spout("orders")
    with spout.emit(message_id="1") as root:
        headers = root.headers()
    with client.receive(headers, component="bolt"):
        pass
    client.flush()
    return next(iter(spout.completions(stop=lambda: False, poll_timeout=20))).outcome


class TestClients:
    def test_a_client_that_knows_the_authority_is_served(
        self, acker: AckerProcess, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        for name in ("localhost", "127.0.0.1"):
            with Acker(acker.url.replace("127.0.0.1", name)) as client:
                assert end_to_end(client) == "acked"

    def test_so_is_one_of_asyncio(
        self, acker: AckerProcess, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))

        async def ask() -> str:
            async with AsyncAcker(acker.url) as client:
                return (await client.topologies.get("default")).name

        assert asyncio.run(ask()) == "default"

    def test_one_that_does_not_is_told_how_to(self, acker: AckerProcess) -> None:
        with (
            pytest.raises(RetriesExhausted, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"),
            Acker(acker.url, startup_timeout=0) as client,
        ):
            client.topologies.get("default")

    def test_the_commands_follow_the_same_rule(self, acker: AckerProcess, files: CertificateFiles) -> None:
        known = {"ACKER_URL": acker.url, "SSL_CERT_FILE": str(files.authority)}
        assert run_acker("status", **known).returncode == 0
        said = run_acker("doctor", **known)
        assert (said.returncode, said.stderr) == (10, ""), "a warning: this Redis keeps no append-only file"
        assert run_acker("health", **known).stdout == "ready\n"
        unknown = run_acker("doctor", ACKER_URL=acker.url)
        assert unknown.returncode == 1
        assert "no acker is trusted at" in unknown.stderr
        assert "SSL_CERT_FILE" in unknown.stderr

    def test_health_finds_the_acker_of_its_own_machine_whatever_name_its_certificate_has(
        self, tmp_path: Path, valkey_url: str
    ) -> None:
        others = issue(tmp_path, "acker.example")
        with acker_serve(tmp_path, "--redis-url", valkey_url, *others.options) as acker:
            port = acker.url.rpartition(":")[2]
            said = run_acker("health", "--acker", "", ACKER_PORT=port, ACKER_TLS_CERT=str(others.certificate))
            assert (said.returncode, said.stdout, said.stderr) == (0, "ready\n", "")
            assert run_acker("health", "--acker", "", ACKER_PORT=port).returncode == 1
            known = {"ACKER_URL": acker.url, "SSL_CERT_FILE": str(others.authority)}
            assert "IP address mismatch" in run_acker("health", **known).stderr


class TestConnections:
    def test_a_request_without_tls_is_answered_what_to_do(self, acker: AckerProcess) -> None:
        before = failed(acker)
        with RawHttp(acker.url.replace("https", "http")) as raw:
            status, headers, problem = raw.get("/readyz")
        assert (status, problem["code"], headers["connection"]) == (400, "invalid", "close")
        assert problem["detail"] == "this address speaks TLS: use https"
        assert failed(acker) == before + 1

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_it_speaks_both_versions_that_are_in_use(self, acker: AckerProcess, version: ssl.TLSVersion) -> None:
        context = unchecked()
        context.minimum_version = context.maximum_version = version
        host = acker.url.removeprefix("https://")
        with contextlib.closing(http.client.HTTPSConnection(host, timeout=20, context=context)) as connection:
            for _ in range(3):
                connection.request("GET", DEFAULT)
                assert json.load(connection.getresponse())["topology"] == "default"

    @pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
    def test_it_speaks_none_that_is_broken(self, acker: AckerProcess) -> None:
        context = unchecked()
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        host = acker.url.removeprefix("https://")
        with (
            contextlib.closing(http.client.HTTPSConnection(host, timeout=20, context=context)) as connection,
            pytest.raises(ssl.SSLError),
        ):
            connection.connect()

    def test_a_large_body_and_a_large_answer_go_through(self, acker: AckerProcess) -> None:
        ops = [{"op": "ack", "root_id": f"{root:016x}", "edge_id": f"{root:016x}"} for root in range(1, 10_001)]
        answer = acker.http.post(f"{DEFAULT}/batch", json={"ops": ops})
        assert (answer.status_code, answer.json()["accepted"]) == (200, 10_000)
        assert len(acker.http.get("/openapi.json").content) > 65_536

    def test_pipelined_requests_are_answered_in_their_order(self, acker: AckerProcess) -> None:
        with RawHttp(acker.url) as raw:
            requests = [b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in (b"livez", b"nowhere")]
            raw.send(requests[0] * 50, requests[1])
            assert [raw.answer()[0] for _ in range(51)] == [200] * 50 + [404]

    def test_an_answer_that_closes_ends_the_connection_in_order(self, acker: AckerProcess) -> None:
        with RawHttp(acker.url) as raw:
            raw.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert raw.answer()[0] == 200
            assert raw.is_closed(), "the end of TLS, without which a client reports a cut"

    def test_it_ends_at_once_although_clients_keep_their_connections(
        self, tmp_path: Path, files: CertificateFiles, valkey_url: str
    ) -> None:
        with acker_serve(tmp_path, "--redis-url", valkey_url, *files.options) as acker, RawHttp(acker.url) as raw:
            assert raw.get("/livez")[0] == 200
            with contextlib.closing(socket.create_connection(("127.0.0.1", int(acker.url.rpartition(":")[2])))):
                eventually_true(lambda: read(acker.http.get("/metrics").text).value("acker_connections") == 3)
                assert acker.terminate(within=8) == 0
            assert raw.is_closed()


class TestRenewal:
    @pytest.mark.parametrize("processes", HOW_MANY)
    def test_files_that_change_are_taken_over_without_a_restart(
        self, tmp_path: Path, valkey_url: str, processes: tuple[str, ...]
    ) -> None:
        authority = trustme.CA()
        files = issue(tmp_path, authority=authority)
        with (
            acker_serve(tmp_path, "--redis-url", valkey_url, *files.options, *processes) as acker,
            RawHttp(acker.url) as kept,
        ):
            assert kept.get("/livez")[0] == 200
            first = shown(acker)
            issue(tmp_path, authority=authority)
            eventually_true(lambda: first not in [shown(acker) for _ in range(4)])
            assert first != shown(acker, name=None), "one that names no server is shown the new one, too"
            second = shown(acker)
            files.key.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
            eventually_true(lambda: "the certificate stays as it is" in acker.log.read_text())
            assert "the key is not that of the first certificate in" in acker.log.read_text()
            assert read(acker.http.get("/metrics").text).value("acker_certificate_valid") == 0
            expires = read(acker.http.get("/metrics").text).value("acker_certificate_expiration_timestamp_seconds")
            assert expires > time.time()
            assert shown(acker) == second
            issue(tmp_path, authority=authority)
            eventually_true(lambda: second not in [shown(acker) for _ in range(4)])
            eventually_true(lambda: read(acker.http.get("/metrics").text).value("acker_certificate_valid") == 1)
            assert kept.get("/livez")[0] == 200


class TestStart:
    def test_the_first_lines_of_the_log_say_https(self, acker: AckerProcess) -> None:
        assert f"address: {acker.url};" in acker.log.read_text()
        assert f"takes requests at {acker.url}" in acker.log.read_text()

    @pytest.mark.parametrize("command", ["serve", "config"])
    def test_files_that_cannot_be_used_end_it_before_anything_is_begun(self, tmp_path: Path, command: str) -> None:
        files, data = issue(tmp_path), tmp_path / "data"
        files.key.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
        done = run_acker(command, *files.options, "--data-dir", str(data), "--port", "0")
        error = f"{files.key}: the key is not that of the first certificate in {files.certificate}"
        expected = f"acker: --tls-cert (ACKER_TLS_CERT), --tls-key (ACKER_TLS_KEY): {error}\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
        assert not data.exists()

    @pytest.mark.parametrize(("given", "missing"), [("cert", "key"), ("key", "cert")])
    def test_one_of_both_is_refused(self, given: str, missing: str) -> None:
        done = run_acker("serve", f"--tls-{given}", "/etc/acker/file.pem")
        said = [f"--tls-{name} (ACKER_TLS_{name.upper()})" for name in (given, missing)]
        expected = f"{' is given without '.join(said)}: TLS needs a certificate and its key; name both, or neither"
        assert (done.returncode, done.stderr) == (2, f"acker: {expected}\n")

    def test_a_worker_answers_its_probes_over_tls_too(
        self, tmp_path: Path, files: CertificateFiles, valkey_url: str
    ) -> None:
        with acker_serve(tmp_path, "--redis-url", valkey_url, "--role", "worker", *files.options) as worker:
            assert worker.http.get("/readyz").is_success


def failed(acker: AckerProcess) -> float:
    return read(acker.http.get("/metrics").text).value("acker_heads_refused_total", code="tls") or 0.0
