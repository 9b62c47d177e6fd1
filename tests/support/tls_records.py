"""Writes records of TLS 1.3 one by one (RFC 8446), as clients do that send more than requests."""

from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

CIPHER = "TLS_AES_256_GCM_SHA384"
HANDSHAKE, APPLICATION_DATA = 22, 23
"""The types of what a record holds."""


class RecordWriter:
    """Encrypts what a client sends after the handshake, with the keys that its library wrote into a file.

    Such a client writes nothing by its library any more. The cipher is `CIPHER`.
    """

    def __init__(self, key_log: Path) -> None:
        secrets = dict(line.split(" ", 1) for line in key_log.read_text().splitlines())
        self._use(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"].split(" ")[1]))

    def write(self, content: bytes, *, kind: int = APPLICATION_DATA, padding: int = 0) -> bytes:
        """Return a record that holds some bytes, and zeros that hide their number (section 5.2)."""
        plain = content + bytes([kind]) + bytes(padding)
        head = b"\x17\x03\x03" + (len(plain) + 16).to_bytes(2, "big")
        nonce = (int.from_bytes(self._iv, "big") ^ self._written).to_bytes(12, "big")
        self._written += 1
        return head + self._cipher.encrypt(nonce, plain, head)

    def change_key(self, *, asks_back: bool = False) -> bytes:
        """Return a record after which the client encrypts with the next key (section 4.6.3)."""
        record = self.write(b"\x18\x00\x00\x01" + bytes([asks_back]), kind=HANDSHAKE)
        self._use(_expand(self._secret, b"traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = AESGCM(_expand(secret, b"key", 32))
        self._iv = _expand(secret, b"iv", 12)
        self._written = 0


def _expand(secret: bytes, label: bytes, size: int) -> bytes:
    """Derive bytes from a secret (section 7.1, HKDF-Expand-Label)."""
    named = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(named)]) + named + b"\x00"
    return HKDFExpand(algorithm=SHA384(), length=size, info=info).derive(secret)
