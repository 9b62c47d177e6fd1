"""The proof that anchors come from somebody who has a secret, ``Acker-Anchors-Signature: 00 <time> <mac>``, over HTTP.

``00`` is the version, the time is in Unix seconds. The MAC is the HMAC-SHA256 of ``00 <time> <anchors>`` in hex digits,
where the anchors are the value of ``Acker-Anchors`` without white space around it; the key is the secret in UTF-8.
"""

import hmac
import re
from collections.abc import Sequence

from acker_protocol.anchors import Headers, anchors_value, header_values
from acker_protocol.errors import InvalidSignature
from acker_protocol.routes import ANCHORS, ANCHORS_SIGNATURE

VERSION = "00"

TOLERANCE_S = 300
"""Maximum distance of a signature's time from now: it limits for how long recorded anchors can be sent again."""

MIN_SECRET_CHARACTERS = 16

_FORM = re.compile(r"00 (0|[1-9][0-9]{0,11}) ([0-9a-f]{64})", re.ASCII)


def secret_keys(secrets: str | Sequence[str]) -> tuple[bytes, ...]:
    """Return the key of each secret, or of the only one. Raises ``ValueError``, whose text does not contain them."""
    listed = [secrets] if isinstance(secrets, str) else list(secrets)
    if not listed or not all(isinstance(secret, str) and len(secret) >= MIN_SECRET_CHARACTERS for secret in listed):
        raise ValueError(f"must have {MIN_SECRET_CHARACTERS} characters at least; draw it, do not invent it")
    return tuple(secret.encode() for secret in listed)


def write_signature(keys: Sequence[bytes], anchors: str, *, now_s: float) -> str:
    """Return the signature of the value of the anchors' header, made with the first key; ``now_s`` in Unix seconds."""
    time = str(int(now_s))
    return f"{VERSION} {time} {_mac(keys[0], time, anchors)}"


def check_signature(keys: Sequence[bytes], headers: Headers, *, now_s: float) -> None:
    """Accept headers without anchors, and those whose anchors were signed with one of the keys, not long ago.

    ``headers`` are read twice, so no iterator. Raises `InvalidSignature`, and `InvalidHeader` for several anchors'
    headers. MACs are compared in constant time, with each key.
    """
    anchors = anchors_value(headers)
    if anchors is None:
        return
    signatures = header_values(headers, ANCHORS_SIGNATURE)
    if len(signatures) != 1:
        raise InvalidSignature(f"{ANCHORS} needs one {ANCHORS_SIGNATURE} here, and has {len(signatures)}")
    found = _FORM.fullmatch(signatures[0].strip())
    if found is None:
        raise InvalidSignature(f"{ANCHORS_SIGNATURE} must be {VERSION}, a time in Unix seconds and 64 hex digits")
    time, mac = found.groups()
    # all keys are tried, whichever fits, so that the time it takes tells nothing
    fits = [hmac.compare_digest(_mac(key, time, anchors), mac) for key in keys]
    if not any(fits):
        raise InvalidSignature(f"{ANCHORS_SIGNATURE} was made with another secret, or for other anchors")
    if abs(now_s - int(time)) > TOLERANCE_S:
        raise InvalidSignature(f"{ANCHORS_SIGNATURE} is more than {TOLERANCE_S} s from now")


def _mac(key: bytes, time: str, anchors: str) -> str:
    text = f"{VERSION} {time} {anchors.strip()}".encode(errors="replace")
    return hmac.digest(key, text, "sha256").hex()
