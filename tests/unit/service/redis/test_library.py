import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from acker_service.redis import library
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

REDIS = Path(str(files("acker_service.redis")))
SERVICE = REDIS.parent
REGISTERED = re.compile(r"(?:register_function|register|register_on_shard)\('(\w+)'")
CALLED = re.compile(r'"(acker_(?:\w+_v\d+|version))"')


def test_the_library_is_all_files_of_its_folder() -> None:
    assert sorted(library.FILES) == sorted(path.stem for path in (REDIS / "lua").glob("*.lua"))


def test_the_files_are_joined_in_the_order_that_the_first_one_states() -> None:
    stated = re.search(r"joined in this order: (.*?)\.\n", library.source(), re.DOTALL)
    assert stated is not None
    assert re.findall(r"\w+", re.sub(r"\(.*?\)", "", stated[1])) == [*library.FILES]
    heads = [
        library.source().index((REDIS / "lua" / f"{name}.lua").read_text(encoding="utf-8")) for name in library.FILES
    ]
    assert heads == sorted(heads)


def test_the_text_begins_with_the_line_that_names_the_library() -> None:
    assert library.source().splitlines()[0] == "#!lua name=acker"


def test_every_function_that_is_called_is_registered_once_and_no_other() -> None:
    registered = REGISTERED.findall(library.source())
    called = {name for path in SERVICE.rglob("*.py") for name in CALLED.findall(path.read_text(encoding="utf-8"))}
    assert sorted(registered) == sorted(called)


def test_the_version_is_the_one_that_the_text_states() -> None:
    text = library.source()
    assert library.version(text) >= 1
    stated = f"local VERSION = {library.version(text)}\n"
    assert library.version(text.replace(stated, "local VERSION = 4711\n")) == 4_711


def test_a_text_without_a_version_is_no_library() -> None:
    with pytest.raises(AssertionError):
        library.version("-- local VERSION = 1\n")


@pytest.mark.parametrize("words", ["Function not found", "ERR Function not found", "Error: FUNCTION NOT FOUND."])
def test_redis_that_does_not_know_a_function_misses_the_library(words: str) -> None:
    assert library.is_missing(ResponseError(words))


@pytest.mark.parametrize(
    "fault",
    [
        ResponseError("NOSCRIPT No matching script"),
        RedisConnectionError("Function not found"),
        ValueError("function not found"),
    ],
)
def test_any_other_fault_is_not_that(fault: Exception) -> None:
    assert not library.is_missing(fault)


def test_a_library_that_changed_has_a_higher_version() -> None:
    """The loader replaces only an older version: raise VERSION in lua/acker.lua with every change, and pin it here."""
    text = library.source()
    assert (library.version(text), hashlib.sha256(text.encode()).hexdigest()[:16]) == (62, "b0139fdc751b2198")
