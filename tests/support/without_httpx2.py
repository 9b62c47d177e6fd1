"""Runs tests as where httpx2 is not installed, by ``pytest -p tests.support.without_httpx2``: clients use httpx."""

import sys

sys.modules["httpx2"] = None  # type: ignore[assignment]  # its import fails
