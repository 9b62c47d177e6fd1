"""The token in the address of a root's status: a random handle, what it stands for in a cipher, and an HMAC of both.

The cipher hides two values, the root id and the time at which the token expires: it is both, XORed with an HMAC of the
handle. Whoever holds the secret can read a token, so nothing is stored. Nobody else learns the root id, with which he
could fail the root.
"""

import hmac
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

from acker_protocol.ids import format_id, parse_id

from acker_client._core import validate

HANDLE_BYTES = 16
MAC_BYTES = 16

_FIELDS = struct.Struct(">QQ")
_FORM = re.compile(r"[A-Za-z0-9_-]{64}", re.ASCII)
_CIPHER_PURPOSE = b"acker status token 2 cipher\0"
_MAC_PURPOSE = b"acker status token 2 mac\0"


class InvalidToken(Exception):
    """The token was not made with any of the secrets, for this topology."""


class ExpiredToken(Exception):
    """The token is genuine, and its time is over."""


class StatusTokens:
    """Makes and reads the tokens of one topology: made with the first of the secrets, read with any."""

    def __init__(self, secrets: str | Sequence[str], *, topology: str, lifetime_s: float) -> None:
        self._keys = validate.secrets("secret", secrets)
        self._topology = topology.encode()
        self._lifetime_s = lifetime_s

    def make(self, root_id: str, *, handle: bytes, now_s: float) -> str:
        """Make the token of a root: 64 characters that can stand in a path.

        ``handle`` are 16 random bytes, drawn for this token alone. Times are in Unix seconds.
        """
        fields = _FIELDS.pack(parse_id(root_id), int(now_s + self._lifetime_s))
        sealed = handle + self._cipher(self._keys[0], handle, fields)
        return urlsafe_b64encode(sealed + self._mac(self._keys[0], sealed)).decode()

    def read(self, token: str, *, now_s: float) -> str:
        """Return the root id. Raises `InvalidToken` and `ExpiredToken`."""
        if _FORM.fullmatch(token) is None:
            raise InvalidToken
        data = urlsafe_b64decode(token)
        sealed, mac = data[:-MAC_BYTES], data[-MAC_BYTES:]
        for key in self._keys:
            if hmac.compare_digest(mac, self._mac(key, sealed)):
                root_id, expires_s = _FIELDS.unpack(self._cipher(key, sealed[:HANDLE_BYTES], sealed[HANDLE_BYTES:]))
                if now_s >= expires_s:
                    raise ExpiredToken
                return format_id(root_id)
        raise InvalidToken

    def _cipher(self, key: bytes, handle: bytes, text: bytes) -> bytes:
        """XOR the fields with what the handle gives: encrypts them, and decrypts them again."""
        stream = self._digest(key, _CIPHER_PURPOSE, handle)
        return bytes(one ^ other for one, other in zip(text, stream, strict=False))

    def _mac(self, key: bytes, sealed: bytes) -> bytes:
        return self._digest(key, _MAC_PURPOSE, sealed)[:MAC_BYTES]

    def _digest(self, key: bytes, purpose: bytes, text: bytes) -> bytes:
        return hmac.digest(key, purpose + self._topology + b"\0" + text, "sha256")
