"""The certificate of the listener and its key, read from two files that may change while they are used."""

import logging
import ssl
from pathlib import Path
from typing import NoReturn

from acker_service.file_changes import fingerprint, watch

_ANOTHER_KEY = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""The reasons that OpenSSL gives where a key is not that of a certificate; the last one where even its kind differs."""

_log = logging.getLogger(__name__)


def read_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Read a certificate, with the chain that follows it, and its key: both PEM. Clients speak TLS 1.2 or later.

    Raises ``ValueError``, which says in one line what is wrong with which file.
    """
    _check_holds(certificate, "certificate", b"CERTIFICATE-----")
    _check_holds(key, "private key", b"PRIVATE KEY-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION

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


class Certificate:
    """The certificate that new connections are shown; ``context`` is what was read last.

    Raises ``ValueError`` for files that cannot be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._seen = self._latest = fingerprint(certificate, key)
        self.context = read_context(certificate, key)
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
            self.context = read_context(self._certificate, self._key)
        except ValueError as error:
            self.is_valid = False
            _log.error("the certificate stays as it is: %s", error)
        else:
            self.is_valid = True
            _log.info("the certificate was read again from %s", self._certificate)

    async def watch(self) -> None:
        """Read the files again whenever they change, until cancelled."""
        await watch(self.reload_if_changed, name="the certificate", log=_log)
