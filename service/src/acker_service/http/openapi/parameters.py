"""Writes parameters as the routes declare them, without null: an absent parameter is no value."""

from acker_protocol.routes import IDEMPOTENCY_KEY

from acker_service.http.openapi.shapes import KEY, NULL, Json, ref

_SCHEMAS: dict[str, Json] = {
    "topology": ref("Name"),
    "spout_task": ref("Name"),
    "root_id": ref("Id"),
    IDEMPOTENCY_KEY: {"type": "string", "pattern": KEY},
}
"""Schemas that the contract states more exactly than the routes."""

_EXAMPLES = {
    "topology": "default",
    "spout_task": "orders-1",
    "root_id": "5f2c1e0b9a7d4836",
    IDEMPOTENCY_KEY: "orders-1.000042",
}


def parameter(declared: Json) -> Json:
    """Write a parameter, with its example."""
    name = declared["name"]
    schema = _SCHEMAS.get(name) or _plain(declared["schema"])
    example = {"example": _EXAMPLES[name]} if name in _EXAMPLES else {}
    return {**declared, "schema": schema, **example}


def _plain(schema: Json) -> Json:
    """Give the schema of a parameter without its title, its description and null."""
    kept = {name: value for name, value in schema.items() if name not in ("title", "description", "anyOf")}
    for choice in schema.get("anyOf", ()):
        if choice != NULL:
            kept |= choice
    return kept
