"""The building blocks of the client, for libraries on top of it such as acker-spark; they may change in any release.

A `Driver` runs flows: those of a `RetrySession`, which sends requests until they are answered, and `deliver`, which
sends operations until they are accepted. ``requests`` and ``responses`` write and read the messages of the contract.
"""

from acker_client._core import requests, responses
from acker_client._core.delivery import deliver
from acker_client._core.effects import Flow
from acker_client._core.requests import Request
from acker_client._core.responses import Response
from acker_client._core.retry import RetrySession
from acker_client._transport import Endpoint
from acker_client._validate import to_milliseconds
from acker_client.completions import read_page
from acker_client.config import ClientConfig
from acker_client.sync.driver import Driver

__all__ = [
    "ClientConfig",
    "Driver",
    "Endpoint",
    "Flow",
    "Request",
    "Response",
    "RetrySession",
    "deliver",
    "read_page",
    "requests",
    "responses",
    "to_milliseconds",
]
