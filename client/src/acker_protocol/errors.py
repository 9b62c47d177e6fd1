"""The errors of the service, as exceptions and as RFC 9457 problem documents.

The tree of errors (code, HTTP status, whether a retry helps)::

    AckerError                     the root of all errors, the client's too (see ``acker_client.errors``)
    ├── UsageError                 usage_error: no answer of the service, so without a status
    │   └── TooManyAnchors         too_many_anchors
    ├── InvalidHeader              invalid_header
    │   └── InvalidSignature       invalid_signature
    └── ServiceError               problem 500 no
        ├── InvalidRequest         invalid 422 no
        ├── Unauthorized           unauthorized 401 no
        ├── Forbidden              forbidden 403 no
        ├── ForbiddenOrigin        forbidden_origin 403 no
        ├── NotFound               not_found 404 no
        │   ├── UnknownTopology    unknown_topology 404 no
        │   ├── UnknownRoot        unknown_root 404 no
        │   └── UnknownSpout       unknown_spout 404 no
        ├── MethodNotAllowed       method_not_allowed 405 no
        ├── Conflict               conflict 409 no
        │   ├── TopologyBusy       topology_busy 409 yes
        │   ├── SpoutBusy          spout_busy 409 yes
        │   ├── AckersFixed        ackers_fixed 409 no
        │   └── MailboxOwned       mailbox_owned 409 no
        ├── TooLarge               too_large 413 no
        ├── UnsupportedMediaType   unsupported_media_type 415 no
        ├── TooManySpouts          too_many_spouts 422 no
        ├── MaxSpoutPending        max_spout_pending 429 yes
        ├── MailboxFull            mailbox_full 429 yes
        ├── TooManyStreams         too_many_streams 429 yes
        ├── StoreFull              store_full 503 yes
        ├── Overloaded             overloaded 503 yes; 429 beyond the rate of a key
        └── StoreUnavailable       store_unavailable 503 yes, for a write see its docstring
"""

from typing import Any, ClassVar

MEDIA_TYPE = "application/problem+json"


class AckerError(Exception):
    """The root of all errors of Acker: ``code`` is stable, ``retryable`` says whether a retry helps."""

    code: ClassVar[str] = "acker"
    retryable: bool = False


class UsageError(AckerError, ValueError):
    """The program asks for what cannot be; nothing is sent for it."""

    code = "usage_error"


class TooManyAnchors(UsageError):
    """A message would carry more anchors than its header holds."""

    code = "too_many_anchors"


class InvalidHeader(AckerError):
    """An anchors header cannot be read, or is of another topology."""

    code = "invalid_header"


class InvalidSignature(InvalidHeader):
    """Anchors came over HTTP without proof that their sender has a secret, or with a wrong one, or a late one."""

    code = "invalid_signature"


class ServiceError(AckerError):
    """An error that the service answers. ``detail`` says what failed, ``extra`` holds further members."""

    code: ClassVar[str] = "problem"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"
    retryable_by_default: ClassVar[bool] = False

    def __init__(self, detail: str, *, retryable: bool | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retryable = self.retryable_by_default if retryable is None else retryable
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """Return the problem document, ready for JSON."""
        return {
            "type": f"urn:acker:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
            **self.extra,
        }


class InvalidRequest(ServiceError):
    """The request is not of the contract's form; in a batch, ``index`` names the operation."""

    code, status, title = "invalid", 422, "The request is not valid"


class Unauthorized(ServiceError):
    """No key, or one that is not known."""

    code, status, title = "unauthorized", 401, "A key is needed"


class Forbidden(ServiceError):
    """The key's scope or topologies do not allow this."""

    code, status, title = "forbidden", 403, "The key does not allow this"


class ForbiddenOrigin(ServiceError):
    """Without keys: a web page of another origin asks, or `Host` is no name of the service."""

    code, status, title = "forbidden_origin", 403, "The origin is not allowed"


class NotFound(ServiceError):
    """There is nothing at this address."""

    code, status, title = "not_found", 404, "There is nothing here"


class UnknownTopology(NotFound):
    """No topology has this name."""

    code, title = "unknown_topology", "No such topology"


class UnknownRoot(NotFound):
    """The root is neither pending nor early nor remembered."""

    code, title = "unknown_root", "No such root"


class UnknownSpout(NotFound):
    """No spout task has this name."""

    code, title = "unknown_spout", "No such spout task"


class MethodNotAllowed(ServiceError):
    """The address is right, the method is not."""

    code, status, title = "method_not_allowed", 405, "The method is not allowed here"


class Conflict(ServiceError):
    """The root is held by another spout task or message id."""

    code, status, title = "conflict", 409, "The root is held by another emit"


class TopologyBusy(Conflict):
    """The topology has pending roots or unread completions, or is being deleted."""

    code, title, retryable_by_default = "topology_busy", "The topology is busy", True


class SpoutBusy(Conflict):
    """The spout task has pending roots or unread completions."""

    code, title, retryable_by_default = "spout_busy", "The spout task is busy", True


class AckersFixed(Conflict):
    """The number of ackers of a topology is fixed when it is made."""

    code, title = "ackers_fixed", "The number of ackers is fixed"


class MailboxOwned(Conflict):
    """A webhook owns the mailbox; others may read, not release."""

    code, title = "mailbox_owned", "A webhook owns the mailbox"


class TooLarge(ServiceError):
    """The body, or the batch, is over the limit."""

    code, status, title = "too_large", 413, "The request is too large"


class UnsupportedMediaType(ServiceError):
    """The body is of a type that is not read here."""

    code, status, title = "unsupported_media_type", 415, "The content type is not supported"


class TooManySpouts(ServiceError):
    """The topology has as many spout tasks as it may have; nothing of the request was applied."""

    code, status, title = "too_many_spouts", 422, "The topology has too many spout tasks"


class MaxSpoutPending(ServiceError):
    """The spout task has as many pending roots as it may have."""

    code, status, title, retryable_by_default = "max_spout_pending", 429, "Too many roots are pending", True


class MailboxFull(ServiceError):
    """The spout task's mailbox holds as many completions as it may."""

    code, status, title, retryable_by_default = "mailbox_full", 429, "The mailbox is full", True


class TooManyStreams(ServiceError):
    """The acker or the key has as many streams of live events as it may have."""

    code, status, title, retryable_by_default = "too_many_streams", 429, "Too many streams are open", True


class StoreFull(ServiceError):
    """Redis has no memory left for new roots, or a topology has as many roots without their init as it may.

    Or it has as many edges and requests remembered as it may.
    """

    code, status, title, retryable_by_default = "store_full", 503, "The store is full", True


class Overloaded(ServiceError):
    """The service has more to do than it can."""

    code, status, title, retryable_by_default = "overloaded", 503, "The service is overloaded", True


class StoreUnavailable(ServiceError):
    """Redis did not answer, or not everywhere.

    The result of a write is unknown. With an idempotency key it may be sent again; without one only if it holds no ack.
    """

    code, status, title, retryable_by_default = "store_unavailable", 503, "The store is not available", True


def known() -> dict[str, type[ServiceError]]:
    """Map every code to its class; a subclass that a program adds shares the code of its base."""
    classes, found = [ServiceError], dict[str, type[ServiceError]]()
    while classes:
        cls = classes.pop()
        found.setdefault(cls.code, cls)
        classes.extend(cls.__subclasses__())
    return found


def from_document(document: dict[str, Any]) -> ServiceError:
    """Make the exception of a problem document.

    An unknown code gives a plain `ServiceError` with the whole document in ``extra``.
    """
    cls = known().get(str(document.get("code")))
    members = ServiceError("").document().keys() if cls else ("detail", "retryable")
    cls = cls or ServiceError
    extra = {name: value for name, value in document.items() if name not in members}
    detail = document.get("detail", document.get("title", cls.title))
    return cls(str(detail), retryable=bool(document.get("retryable")), **extra)
