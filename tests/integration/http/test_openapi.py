"""The document of the API is whole, and its examples are what the acker takes and gives."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from acker_protocol import errors
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http import openapi
from acker_service.http.operations import ROUTES
from acker_service.settings import Settings
from fastapi.routing import iter_route_contexts

from tests.support.caller import Caller, init
from tests.support.keys import keys_file

pytestmark = pytest.mark.anyio

Document = dict[str, Any]

JSON = "application/json"
SERVICE = Path(openapi.__file__).parents[1]
ROOT_ID = 0x5F2C1E0B9A7D4836


def written(settings: Settings) -> Document:
    app = make_app(Components("redis://127.0.0.1:1", window_ms=600_000), settings, asyncio.Event())
    return openapi.document(app, max_batch=settings.max_batch)


DOCUMENT = written(Settings())


def operations(told: Document) -> dict[str, Document]:
    """The operations by method and path."""
    paths = told["paths"].items()
    return {f"{method.upper()} {path}": operation for path, item in paths for method, operation in item.items()}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A value that stands in the document as an example of a schema."""

    where: str
    schema: Document
    value: Any

    @property
    def id(self) -> str:
        return self.where.replace("/", ".").strip(".")


def examples(node: Any, where: str = "") -> Iterator[Example]:
    """Find all examples, those of parameters and media types as well as those within schemas."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if isinstance(node, dict):
        schema = node.get("schema", node)
        yield from (Example(where=f"{where}/{name}", schema=schema, value=value) for name, value in own_examples(node))
        for name in node.keys() - {"examples", "example"}:
            yield from examples(node[name], f"{where}/{name}")


def own_examples(node: Document) -> list[tuple[Any, Any]]:
    """The examples that a media type, a parameter or a schema itself has."""
    some = node.get("examples", {})
    named = (
        [(name, example["value"]) for name, example in some.items()]
        if isinstance(some, dict)
        else list(enumerate(some))
    )
    return named + ([("example", node["example"])] if "example" in node else [])


EXAMPLES = sorted(examples(DOCUMENT), key=lambda example: example.where)
REQUESTS = [
    pytest.param(operation, kind, example["value"], id=f"{operation['operationId']}-{name}")
    for operation in operations(DOCUMENT).values()
    for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    for name, example in content["examples"].items()
]


async def test_the_document_is_served_and_is_openapi(api: httpx.AsyncClient) -> None:
    answer = await api.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json() == DOCUMENT
    schemathesis.openapi.from_dict(answer.json()).validate()


def test_it_has_exactly_the_routes_that_the_application_has() -> None:
    app = make_app(Components("redis://127.0.0.1:1", window_ms=600_000), Settings(), asyncio.Event())
    routes = {
        f"{method} {route.path_format}" for route in iter_route_contexts(app.routes) for method in route.methods or ()
    }
    routes |= {f"POST {route.template}" for route in ROUTES.values()}
    assert operations(DOCUMENT).keys() == {route for route in routes if not route.startswith("HEAD ")}


def test_one_sentence_says_what_head_is_answered() -> None:
    assert DOCUMENT["info"]["description"].count("HEAD") == 1


def test_every_operation_has_an_id_of_its_own_and_says_what_it_does() -> None:
    told = operations(DOCUMENT).values()
    assert len({operation["operationId"] for operation in told}) == len(told)
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for operation in told:
        assert set(operation["tags"]) <= tags
        assert operation["summary"]
        assert operation["description"]


def raised() -> set[str]:
    """The codes of the problems that the service has a use for."""
    source = "\n".join(file.read_text() for file in SERVICE.rglob("*.py"))
    return {code for code, kind in errors.known().items() if re.search(rf"\b{kind.__name__}\b", source)}


def test_every_code_that_the_service_can_raise_is_in_the_document() -> None:
    responses = DOCUMENT["components"]["responses"].values()
    told = {code for response in responses for code in response["content"][errors.MEDIA_TYPE]["examples"]}
    assert told == raised()


def test_every_response_that_is_told_of_is_there_and_the_other_way_round() -> None:
    used = set(re.findall(r"#/components/(?:schemas|responses)/[\w.]+", str(DOCUMENT)))
    had = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in DOCUMENT["components"][kind]}
    anywhere = {
        f"#/components/responses/{name}" for name in ("403.forbidden_origin", "404.not_found", "405.method_not_allowed")
    }
    assert used | anywhere == had


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.id)
def test_an_example_is_of_its_schema(example: Example) -> None:
    schema = {"components": DOCUMENT["components"], "allOf": [example.schema]}
    jsonschema_rs.Draft202012Validator(schema).validate(example.value)


@pytest.mark.parametrize(("operation", "kind", "value"), REQUESTS)
async def test_an_example_of_a_request_is_taken(call: Caller, operation: Document, kind: str, value: Any) -> None:
    if operation["operationId"] not in ("init", "batch"):
        await call.post(init(ROOT_ID, 0xE1, spout_task="orders-1"))
    ((method, path),) = [key.split(" ") for key, other in operations(DOCUMENT).items() if other is operation]
    given = {parameter["name"]: parameter["example"] for parameter in operation["parameters"] if "example" in parameter}
    sent = {"json": value} if kind == JSON else {"content": value.encode(), "headers": {"Content-Type": kind}}
    answer = await call.http.request(method, path.format_map(given), **sent)
    assert answer.is_success, answer.text
    assert str(answer.status_code) in operation["responses"]


def test_the_packed_example_is_a_packed_batch() -> None:
    (value,) = [example.value for example in EXAMPLES if CONTENT_TYPE in example.where]
    assert len(decode_packed(value.encode(), max_operations=10)) == 3


def test_where_keys_are_configured_a_key_has_to_be_shown(tmp_path: Path) -> None:
    told = operations(written(Settings(keys_file=keys_file(tmp_path, "admin"))))
    open_to_all = {key for key, operation in told.items() if operation["security"] == []}
    assert open_to_all == {"GET /", "GET /livez", "GET /readyz", "GET /metrics", "GET /openapi.json"}
    for key in told.keys() - open_to_all:
        ((scope,),) = [need["key"] for need in told[key]["security"]]
        assert f"Scope: `{scope}`." in told[key]["description"]


def test_where_no_keys_are_configured_a_key_may_be_left_out() -> None:
    assert all({} in operation["security"] for operation in operations(DOCUMENT).values() if operation["security"])


def test_the_size_of_a_batch_is_the_one_that_is_set() -> None:
    schemas = written(Settings(max_batch=17))["components"]["schemas"]
    assert schemas["Batch"]["properties"]["ops"]["maxItems"] == 17


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_there_are_no_pages_that_would_load_scripts_from_others(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
