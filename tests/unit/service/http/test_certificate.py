"""The certificate and its key: what is wrong with them is said in one line, and what changes in them is read again."""

import asyncio
import logging
import os
import ssl
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trustme
from acker_service import file_changes
from acker_service.background import cancel_and_wait
from acker_service.http.certificate import Certificate, read_context, read_expiry
from cryptography import x509

from tests.support.certificates import CertificateFiles, issue
from tests.support.waiting import eventually


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return issue(tmp_path)


def with_password(files: CertificateFiles) -> None:
    encrypted = subprocess.run(
        ["openssl", "pkey", "-in", files.key, "-aes256", "-passout", "pass:secret"], capture_output=True, check=True
    )
    files.key.write_bytes(encrypted.stdout)


def of_another(files: CertificateFiles) -> None:
    files.key.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())


def of_another_kind(files: CertificateFiles) -> None:
    made = trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.RSA)
    files.key.write_bytes(made.private_key_pem.bytes())


WRONG: list[tuple[str, Callable[[CertificateFiles], object], str]] = [
    ("no certificate", lambda files: files.certificate.unlink(), "{certificate}: No such file or directory"),
    ("no key", lambda files: files.key.unlink(), "{key}: No such file or directory"),
    ("a folder", lambda files: (files.key.unlink(), files.key.mkdir()), "{key}: Is a directory"),
    ("an empty file", lambda files: files.certificate.write_bytes(b""),
     "{certificate}: it holds no certificate in PEM"),
    ("exchanged", lambda files: files.certificate.write_bytes(files.key.read_bytes()),
     "{certificate}: it holds no certificate in PEM"),
    ("no key in it", lambda files: files.key.write_bytes(files.certificate.read_bytes()),
     "{key}: it holds no private key in PEM"),
    ("another key", of_another, "{key}: the key is not that of the first certificate in {certificate}"),
    ("a key of another kind", of_another_kind, "{key}: the key is not that of the first certificate in {certificate}"),
    ("a password", with_password,
     "{key}: the key has a password: write it without one (openssl pkey -in … -out …)"),
    ("a broken certificate", lambda files: files.certificate.write_bytes(files.certificate.read_bytes()[:200]),
     "{certificate} and {key} cannot be used: "),
    ("a broken key", lambda files: files.key.write_bytes(files.key.read_bytes()[:100]),
     "{certificate} and {key} cannot be used: "),
]  # fmt: skip


@pytest.mark.parametrize(("break_", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_said_in_one_line(
    files: CertificateFiles, break_: Callable[[CertificateFiles], object], said: str
) -> None:
    break_(files)
    with pytest.raises(ValueError, match=r"^/") as raised:
        read_context(files.certificate, files.key)
    expected = said.format(certificate=files.certificate, key=files.key)
    assert str(raised.value) == expected or (expected.endswith(": ") and str(raised.value).startswith(expected))
    assert "\n" not in str(raised.value)


def test_a_pair_in_one_file_is_read(files: CertificateFiles) -> None:
    files.certificate.write_bytes(files.certificate.read_bytes() + files.key.read_bytes())
    assert read_context(files.certificate, files.certificate).minimum_version >= ssl.TLSVersion.TLSv1_2


async def _differs(read: Certificate, before: ssl.SSLContext) -> bool:
    return read.context is not before


class TestChanges:
    def test_files_that_stay_are_not_read_again(self, files: CertificateFiles) -> None:
        read = Certificate(files.certificate, files.key)
        before = read.context
        read.reload_if_changed()
        assert read.context is before

    def test_files_are_read_again_once_they_have_changed_and_change_no_more(self, files: CertificateFiles) -> None:
        read = Certificate(files.certificate, files.key)
        before = read.context
        issue(files.key.parent)
        read.reload_if_changed()
        assert read.context is before
        read.reload_if_changed()
        assert read.context is not before
        after = read.context
        read.reload_if_changed()
        assert read.context is after

    def test_a_certificate_waits_for_its_key_without_a_word(self, files: CertificateFiles, caplog) -> None:
        read = Certificate(files.certificate, files.key)
        key = files.key.read_bytes()
        issue(files.key.parent)
        new, _ = files.key.read_bytes(), files.key.write_bytes(key)
        read.reload_if_changed()
        files.key.write_bytes(new)
        os.utime(files.key, ns=(1, 1))
        for _ in range(2):
            read.reload_if_changed()
        assert read.is_valid
        assert [record.levelno for record in caplog.records if record.levelno > logging.INFO] == []

    @pytest.mark.parametrize("gone", [True, False])
    def test_files_that_cannot_be_used_change_nothing_and_are_told_once(
        self, files: CertificateFiles, caplog, *, gone: bool
    ) -> None:
        read = Certificate(files.certificate, files.key)
        before = read.context
        files.key.unlink() if gone else of_another(files)
        for _ in range(4):
            read.reload_if_changed()
        assert (read.context, read.is_valid) == (before, False)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert str(files.key) in caplog.text
        issue(files.key.parent)
        for _ in range(2):
            read.reload_if_changed()
        assert read.is_valid
        assert read.context is not before

    @pytest.mark.anyio
    async def test_watched_files_are_read_again_whenever_they_change(
        self, files: CertificateFiles, monkeypatch
    ) -> None:
        monkeypatch.setattr(file_changes, "CHECK_INTERVAL_S", 0.01)
        read = Certificate(files.certificate, files.key)
        watching = asyncio.create_task(read.watch())
        for _ in range(2):
            before = read.context
            issue(files.key.parent)
            await eventually(partial(_differs, read, before))
        await cancel_and_wait(watching)


@pytest.mark.parametrize("key_type", trustme.KeyType)
@pytest.mark.parametrize("year", [2026, 2031, 2049, 2050, 9999])
def test_it_is_read_when_the_first_certificate_expires(tmp_path: Path, key_type: trustme.KeyType, year: int) -> None:
    """Also where its serial number, its issuer and the chain behind it are long."""
    expires = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    authority = trustme.CA(organization_name="o" * 60).create_child_ca()
    made = authority.issue_cert("localhost", not_after=expires, key_type=key_type)
    file = tmp_path / "chain.pem"
    file.write_bytes(b"Bag Attributes\n" + b"\n".join(blob.bytes() for blob in made.cert_chain_pems))
    assert read_expiry(file) == expires.timestamp()
    assert x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc == expires


@pytest.mark.parametrize(
    "text",
    ["", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n!\n-----END "],
)
def test_a_certificate_without_an_end_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tls.crt"
    file.write_text(text)
    with pytest.raises(ValueError, match="it cannot be read when its certificate expires"):
        read_expiry(file)


def test_another_certificate_has_another_end(files: CertificateFiles) -> None:
    shown = Certificate(files.certificate, files.key)
    first = x509.load_pem_x509_certificate(files.certificate.read_bytes()).not_valid_after_utc.timestamp()
    assert shown.expires_at == first
    made = trustme.CA().issue_cert("localhost", not_after=datetime(2040, 1, 2, tzinfo=UTC))
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    shown.reload_if_changed()
    shown.reload_if_changed()
    assert shown.expires_at == first, "beside the key of the one before"
    files.key.write_bytes(made.private_key_pem.bytes())
    shown.reload_if_changed()
    shown.reload_if_changed()
    assert shown.expires_at == datetime(2040, 1, 2, tzinfo=UTC).timestamp()
