"""The responses of the service: the states in them, or what failed and whether a retry helps."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import ServiceError, from_document
from acker_protocol.operations import NOT_ADMITTED, OperationState
from acker_protocol.values import value

from acker_client._core.requests import OperationResult, Request
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._proxy import Proxy

CERTIFICATE_ADVICE = (
    "Name the file of the authority that signed its certificate in SSL_CERT_FILE, and call the acker by a name that "
    "the certificate is for"
)

OK = 200
SERVER_ERROR = 500

_STATES = {state.value: state for state in OperationState}
_ADMITTED = frozenset(state.value for state in OperationState if state not in NOT_ADMITTED)


@value
class Response:
    """A response as it came, and the proxy through which it came."""

    status: int
    body: bytes
    retry_after: str = ""
    proxy: "Proxy | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """A request without a response, which may have arrived; ``retryable`` is False where none can ever come.

    ``refused_by`` is the address at which no connection could be made, else empty; ``proxy`` is the one in between.
    """

    error: Exception
    retryable: bool = True
    refused_by: str = ""
    proxy: "Proxy | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What failed, whether the same request may be sent again, and after how many seconds at the earliest."""

    error: Exception
    retryable: bool
    wait_s: float = 0.0
    refused_by: str = ""
    proxy: "Proxy | None" = None


def classify(request: Request, response: Response | NoResponse) -> Failure | None:
    """Find the failure; None for an answer. That an operation was not admitted, and so not applied, is an answer."""
    if isinstance(response, NoResponse):
        return Failure(
            error=response.error,
            retryable=response.retryable,
            refused_by=response.refused_by,
            proxy=response.proxy,
        )
    error = _service_error(response)
    if response.status < 300 or _is_not_admitted(request, error):
        return None
    retryable = response.status in (408, 429) or response.status >= 500
    wait_s = retry_after_s(response)
    if error is None:
        by = "" if response.proxy is None else f", through {response.proxy}"
        unknown = InvalidResponse(
            f"{request.method} {request.path} was answered {response.status} without a problem{by}"
        )
        return Failure(error=unknown, retryable=retryable, wait_s=wait_s)
    return Failure(error=error, retryable=retryable and error.retryable, wait_s=wait_s)


def read_results(request: Request, response: Response) -> list[OperationResult]:
    """Read one state per operation. Raises `InvalidResponse`."""
    states = _read_states(request, response)
    try:
        pairs = zip(request.operations, states or (), strict=True)
        return [OperationResult(operation=operation, state=_STATES[state]) for operation, state in pairs]
    except (KeyError, TypeError, ValueError):
        raise _wrong_states(request) from None


def read_refused(request: Request, response: Response) -> list[OperationResult]:
    """Read the results of the operations that were not admitted, and check that each has one. Raises `InvalidResponse`.

    The states are compared as a set first, since nearly always all are admitted.
    """
    if is_admitted(request, response):
        return []
    return [result for result in read_results(request, response) if result.state in NOT_ADMITTED]


def is_admitted(request: Request, response: Response) -> bool:
    """Whether each operation has a state by which it was admitted. Raises `InvalidResponse`."""
    states = _read_states(request, response)
    try:
        return isinstance(states, list) and len(states) == len(request.operations) and _ADMITTED.issuperset(states)
    except TypeError:
        return False


def _read_states(request: Request, response: Response) -> Any:
    found = document(response)
    return found.get("results") if request.path.endswith("/batch") else [found.get("state", found.get("code"))]


def _wrong_states(request: Request) -> InvalidResponse:
    return InvalidResponse(f"{request.path} was not answered with one known state per operation")


def document(response: Response) -> dict[str, Any]:
    """Read the JSON object of a response. Raises `InvalidResponse`."""
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidResponse(f"a response {response.status} holds no JSON object")
    return found


def seconds(milliseconds: float | None) -> float | None:
    """Turn milliseconds of the contract into seconds; None stays None."""
    return None if milliseconds is None else milliseconds / 1000


def retry_after_s(response: Response) -> float:
    """Read how long the service asks to wait, 0 without a number (an acker never gives a date)."""
    text = response.retry_after
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _is_not_admitted(request: Request, error: ServiceError | None) -> bool:
    return len(request.operations) == 1 and error is not None and error.code in NOT_ADMITTED


def _service_error(response: Response) -> ServiceError | None:
    """Read the problem document of a refusal; None without one, as from a proxy in between."""
    if response.status < 400:
        return None
    try:
        found = document(response)
    except InvalidResponse:
        return None
    return from_document(found) if "code" in found else None
