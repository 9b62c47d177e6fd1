"""Descriptions of endpoints beyond what their routes declare: bodies and answers, with examples."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acker_protocol.errors import ServiceError

from acker_service.http.openapi.shapes import Json
from acker_service.http.parameters import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A body of one content type. ``examples`` are by name."""

    schema: Json
    examples: Mapping[str, object] = field(default_factory=dict)
    kind: str = JSON

    def document(self) -> Json:
        """Write it as OpenAPI."""
        examples = {name: {"value": value} for name, value in self.examples.items()}
        return {self.kind: {"schema": self.schema, **({"examples": examples} if examples else {})}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body that an endpoint accepts, in one of several content types."""

    contents: tuple[Content, ...]
    required: bool = True
    description: str = ""

    def document(self) -> Json:
        """Write it as OpenAPI."""
        described = {"description": self.description} if self.description else {}
        return {"required": self.required, "content": _merged(self.contents), **described}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of an endpoint with one status; ``headers`` by name."""

    status: int
    description: str
    contents: tuple[Content, ...] = ()
    headers: Mapping[str, Json] = field(default_factory=dict)

    def document(self) -> Json:
        """Write it as OpenAPI."""
        headers = {"headers": dict(self.headers)} if self.headers else {}
        content = {"content": _merged(self.contents)} if self.contents else {}
        return {"description": self.description, **headers, **content}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An endpoint. ``problems`` are those that `causes` does not derive from its path and body."""

    summary: str
    answers: tuple[Answer, ...]
    notes: str = ""
    problems: tuple[type[ServiceError], ...] = ()
    body: Body | None = None


def found(schema: Json, description: str, **examples: object) -> Answer:
    """A plain 200 in JSON."""
    return Answer(status=200, description=description, contents=(Content(schema=schema, examples=examples),))


def _merged(contents: tuple[Content, ...]) -> Json:
    return {kind: value for content in contents for kind, value in content.document().items()}
