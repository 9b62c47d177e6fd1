"""The certificate of the listener and its key, read from two files that may change while they are used."""

import base64
import logging
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from acker_service.file_changes import fingerprint, watch

_ANOTHER_KEY = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""The reasons that OpenSSL gives where a key is not that of a certificate; the last one where even its kind differs."""

_PEM = re.compile(rb"CERTIFICATE-----\s(.*?)-----END ", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
"""Tags of DER: of the version, which may be left out, and of a time whose year has two digits."""

_log = logging.getLogger(__name__)


def read_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Read a certificate, with the chain that follows it, and its key: both PEM. Clients speak TLS 1.2 or later.

    Raises ``ValueError``, which says in one line what is wrong with which file.
    """
    _check_holds(certificate, "certificate", b"CERTIFICATE-----")
    _check_holds(key, "private key", b"PRIVATE KEY-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Debian's Python leaves it to the settings of OpenSSL, which may ask for more
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)

    def refuse_password() -> NoReturn:  # without it OpenSSL would ask on the terminal
        raise ValueError(f"{key}: the key has a password: write it without one (openssl pkey -in … -out …)")

    try:
        context.load_cert_chain(certificate, key, password=refuse_password)
    except OSError as error:
        reason = getattr(error, "reason", None)
        if reason in _ANOTHER_KEY:
            raise ValueError(f"{key}: the key is not that of the first certificate in {certificate}") from None
        said = str(error) if reason is None else reason.replace("_", " ").lower()
        raise ValueError(f"{certificate} and {key} cannot be used: {said}") from None
    return context


def _check_holds(path: Path, what: str, mark: bytes) -> None:
    """Check that a file can be read and holds what it should in PEM. Raises ``ValueError``."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if mark not in text:
        raise ValueError(f"{path}: it holds no {what} in PEM")


def read_expiry(certificate: Path) -> float:
    """Return when the first certificate of a file expires, in Unix seconds. Raises ``ValueError``."""
    found = _PEM.search(certificate.read_bytes())
    try:
        return _not_after(base64.b64decode(found[1] if found else b""))
    except (IndexError, ValueError):
        raise ValueError(f"{certificate}: it cannot be read when its certificate expires") from None


def _not_after(der: bytes) -> float:
    """Read the end of the validity of a certificate (RFC 5280, section 4.1), in Unix seconds."""
    _, at, _ = _element(der, 0)  # the certificate
    _, at, _ = _element(der, at)  # what is signed of it
    tag, _, end = _element(der, at)
    if tag == _VERSION:
        at = end
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)  # the validity
    _, _, at = _element(der, at)  # its begin
    tag, start, end = _element(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Read the head of an element of DER: its tag, where its content begins, and where it ends."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        size = length - 0x80
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    return der[at], start, start + length


class Certificate:
    """The certificate that new connections are shown; ``context`` is what was read last.

    ``expires_at`` is when it expires, in Unix seconds.
    Raises ``ValueError`` for files that cannot be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._seen = self._latest = fingerprint(certificate, key)
        self.context = read_context(certificate, key)
        self.expires_at = read_expiry(certificate)
        self.is_valid = True

    def reload_if_changed(self) -> None:
        """Read the files again if they have changed since, and not any more since the last call.

        Two files are not replaced in one step: a certificate beside the key of the one before it is waited for. Files
        that cannot be used are logged once and change nothing.
        """
        before, self._latest = self._latest, fingerprint(self._certificate, self._key)
        if self._latest == self._seen or self._latest != before:
            return
        self._seen = self._latest
        try:
            context, expires_at = read_context(self._certificate, self._key), read_expiry(self._certificate)
        except (OSError, ValueError) as error:
            self.is_valid = False
            _log.error("the certificate stays as it is: %s", error)
        else:
            self.context, self.expires_at, self.is_valid = context, expires_at, True
            _log.info("the certificate was read again from %s", self._certificate)

    async def watch(self) -> None:
        """Read the files again whenever they change, until cancelled."""
        await watch(self.reload_if_changed, name="the certificate", log=_log)
