"""One header in each form in which libraries give it, and names that only look like its own."""

import os
from typing import Any

ONE = "00 default 00000000000000aa-00000000000000bb"

FORMS: dict[str, Any] = {
    "wsgi": {"REQUEST_METHOD": "POST", "HTTP_ACKER_ANCHORS": ONE, "wsgi.version": (1, 0)},
    "cgi": os.environ | {"HTTP_ACKER_ANCHORS": ONE},
    "lists": {
        "host": ["a", "b"],
        "acker-anchors": [ONE],
    },  # several values of each name, as AWS's load balancer gives them
    "tuples": {"Acker-Anchors": (ONE,)},
    "bytes": [(b"ACKER-anchors", ONE.encode())],
}

OTHER_NAMES: list[Any] = [
    [(b"http_acker_anchors", ONE.encode())],  # ASGI
    [(b"HTTP_ACKER_ANCHORS", ONE.encode())],
    {"http_acker_anchors": ONE},  # Starlette
    {"Http-Acker-Anchors": ONE},  # Werkzeug
    {"acker_anchors": ONE},
]
"""They bear the name that the header has in WSGI's environment, and are none."""
