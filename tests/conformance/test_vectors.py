"""Every client reads, writes, derives, verifies and decides as the vectors say."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.expectations import mismatch
from tests.conformance.programs import Driver, DriverError


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """What a command is given, and its answer or error."""

    do: str
    about: str
    given: dict[str, Any]
    expect: Any = None
    error: dict[str, Any] | None = None


def vectors() -> list[Vector]:
    """Read all vectors."""
    files = sorted((Path(__file__).parent / "vectors").glob("*.json"))
    return [
        Vector(do=group["do"], **(each | {"given": group.get("given", {}) | each["given"]}))
        for file in files
        for group in json.loads(file.read_text())
        for each in group["vectors"]
    ]


VECTORS = vectors()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector.do}: {vector.about}")
def test_a_client_does_as_a_vector_says(vector: Vector, driver: Driver) -> None:
    found = _answer(driver, vector)
    wanted = {"error": vector.error} if vector.error else {"ok": vector.expect}
    assert not mismatch(found, wanted), mismatch(found, wanted)


def _answer(driver: Driver, vector: Vector) -> dict[str, Any]:
    try:
        return {"ok": driver.call(vector.do, **vector.given)}
    except DriverError as error:
        return {"error": error.error}
