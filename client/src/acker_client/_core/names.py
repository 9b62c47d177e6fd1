"""Makes names of the contract of names that others gave: of tasks, actors, functions, queues and hosts."""

import re
from hashlib import sha256

MAX_CHARACTERS = 128
DIGEST_CHARACTERS = 8


def valid_name(raw: str, *, suffix: str = "") -> str:
    """Make a valid name of any text, followed by ``suffix``; a text that is a valid name stays as it is.

    Each character that a name cannot have becomes a dash, and the name begins with the first letter or digit that is
    left. Where characters beyond ASCII are replaced, nothing is left, or the name is too long, it ends with a digest
    of the text. Two texts may have one name.
    """
    name = re.sub("[^A-Za-z0-9._-]", "-", raw).lstrip("._-")
    space = MAX_CHARACTERS - len(suffix)
    if raw.isascii() and name and len(name) <= space:
        return name + suffix
    digest = sha256(raw.encode(errors="surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    kept = name[: space - len(digest) - 1].rstrip("._-")
    return (f"{kept}-{digest}" if kept else digest) + suffix
