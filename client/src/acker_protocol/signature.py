"""Signatures of webhooks by Standard Webhooks, https://www.standardwebhooks.com.

A secret is ``whsec_`` and the padded base64 of 24 to 64 random bytes. A signature is ``v1,`` and the base64 of the
HMAC-SHA256 over ``id.timestamp.body``; while a secret is rotated there is one for each secret, separated by spaces.
"""

import base64
import hmac
import re
import secrets as entropy
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
COMPLETION_BATCH = "completion.batch"
"""The type of a webhook document with completions."""
COMPLETION_TEST = "completion.test"
"""The type of a webhook document without any, which tries the webhook."""

TOLERANCE_S = 300
"""Maximum distance of a timestamp from now: it limits for how long a recorded request can be replayed."""

SECRET_BYTES = range(24, 65)

_PREFIX = "whsec_"
_NONE_FITS = f"{SIGNATURE} holds none that fits"
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNATURES = re.compile(r"(?:.* )?v1,[A-Za-z0-9+/]{43}=(?: .*)?", re.ASCII)
"""Signatures of which one at least is the base64 of 32 bytes."""


def make_secret(random: "Callable[[int], bytes]" = entropy.token_bytes, *, size: int = 32) -> str:
    """Make a secret of ``size`` random bytes."""
    if size not in SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes, not {size}")
    return _PREFIX + base64.b64encode(random(size)).decode()


def secret_key(secret: str) -> bytes:
    """Read the bytes of a secret. Raises ``ValueError``, whose text does not contain the secret.

    Its base64 is written as `make_secret` writes it: the libraries for Go and Rust read none without padding, and that
    for Rust none whose last character has bits that belong to no byte.
    """
    encoded = secret.removeprefix(_PREFIX)
    with suppress(ValueError):
        key = base64.b64decode(encoded)
        if secret == _PREFIX + base64.b64encode(key).decode() and len(key) in SECRET_BYTES:
            return key
    raise ValueError(
        f"must be {_PREFIX} and the base64 of {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes, "
        "padded with = to a multiple of four characters"
    )


def sign(secrets: "Sequence[str]", *, message: str, timestamp: int, body: bytes) -> str:
    """Sign the body of a message with every secret, in their order; ``timestamp`` is in Unix seconds."""
    return " ".join(_signature(secret, message, str(timestamp), body) for secret in secrets)


def signed_headers(secrets: "Sequence[str]", *, message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of a signed request."""
    signature = sign(secrets, message=message, timestamp=timestamp, body=body)
    return {ID: message, TIMESTAMP: str(timestamp), SIGNATURE: signature}


def verify(
    secrets: "Sequence[str]",
    headers: "Mapping[str, str]",
    body: bytes,
    *,
    now: float,
    tolerance_s: float = TOLERANCE_S,
) -> None:
    """Accept a body that was signed with one of the secrets within the tolerance; ``now`` is in Unix seconds.

    ``headers`` have lowercase names. Raises ``ValueError`` for anything else. Signatures are compared in constant time,
    each with each; those of other versions are ignored.
    """
    verify_headers(headers, now=now, tolerance_s=tolerance_s)
    message, timestamp, signatures = (headers[name] for name in (ID, TIMESTAMP, SIGNATURE))
    expected = [_signature(secret, message, timestamp, body).encode() for secret in secrets]
    given = [signature.encode() for signature in signatures.split(" ")]
    if not sum(hmac.compare_digest(ours, theirs) for ours in expected for theirs in given):
        raise ValueError(_NONE_FITS)


def verify_headers(headers: "Mapping[str, str]", *, now: float, tolerance_s: float = TOLERANCE_S) -> None:
    """Check as much of a signature as can be checked without the body. Raises ``ValueError`` as `verify` does."""
    message, timestamp, signatures = (headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not (message and timestamp and signatures):
        raise ValueError(f"{ID}, {TIMESTAMP} and {SIGNATURE} are needed")
    if not _SECONDS.fullmatch(timestamp):
        raise ValueError(f"{TIMESTAMP} must be in Unix seconds")
    if abs(now - int(timestamp)) > tolerance_s:
        raise ValueError(f"{TIMESTAMP} is more than {tolerance_s:g} s from now")
    if not _SIGNATURES.fullmatch(signatures):
        raise ValueError(_NONE_FITS)


def _signature(secret: str, message: str, timestamp: str, body: bytes) -> str:
    text = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret_key(secret), text, "sha256")).decode()
