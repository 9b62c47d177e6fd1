"""The token in the address of a root's status: the root id, when it expires, and an HMAC of both."""

import base64
import binascii
import hmac
import struct
from collections.abc import Sequence

from acker_protocol.ids import format_id, parse_id

from acker_client.errors import UsageError

MAC_BYTES = 16
MIN_SECRET_CHARACTERS = 16

_FIELDS = struct.Struct(">QQ")
_PURPOSE = b"acker status token 1\0"


class InvalidToken(Exception):
    """The token was not made with any of the secrets, for this topology."""


class ExpiredToken(Exception):
    """The token is genuine, and its time is over."""


class StatusTokens:
    """Makes and reads the tokens of one topology: made with the first of the secrets, read with any."""

    def __init__(self, secrets: str | Sequence[str], *, topology: str, lifetime_s: float) -> None:
        self._secrets = [secret.encode() for secret in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._secrets or min(map(len, self._secrets)) < MIN_SECRET_CHARACTERS:
            raise UsageError(f"secret must have {MIN_SECRET_CHARACTERS} characters at least; draw it, do not invent it")
        self._topology = topology.encode()
        self._lifetime_s = lifetime_s

    def make(self, root_id: str, *, now_s: float) -> str:
        """Make the token of a root: 43 characters that can stand in a path. Times are in Unix seconds."""
        fields = _FIELDS.pack(parse_id(root_id), int(now_s + self._lifetime_s))
        return base64.urlsafe_b64encode(fields + self._mac(self._secrets[0], fields)).decode().rstrip("=")

    def read(self, token: str, *, now_s: float) -> str:
        """Return the root id. Raises `InvalidToken` and `ExpiredToken`."""
        try:
            data = base64.b64decode(f"{token}=", altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise InvalidToken from None
        fields, mac = data[: _FIELDS.size], data[_FIELDS.size :]
        if not any(hmac.compare_digest(mac, self._mac(secret, fields)) for secret in self._secrets):
            raise InvalidToken
        root_id, expires_s = _FIELDS.unpack(fields)
        if now_s >= expires_s:
            raise ExpiredToken
        return format_id(root_id)

    def _mac(self, secret: bytes, fields: bytes) -> bytes:
        return hmac.digest(secret, _PURPOSE + self._topology + b"\0" + fields, "sha256")[:MAC_BYTES]
