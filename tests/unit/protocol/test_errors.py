import json
import re
from typing import Any

import pytest
from acker_protocol import errors
from acker_protocol.errors import Conflict, InvalidRequest, MaxSpoutPending, ServiceError, StoreUnavailable, UnknownRoot

# The codes of the contract with their statuses.
CONTRACT = {
    "invalid": 422,
    "unauthorized": 401,
    "forbidden": 403,
    "forbidden_origin": 403,
    "unknown_topology": 404,
    "unknown_root": 404,
    "unknown_spout": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "topology_busy": 409,
    "spout_busy": 409,
    "ackers_fixed": 409,
    "mailbox_owned": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "too_many_spouts": 422,
    "max_spout_pending": 429,
    "mailbox_full": 429,
    "too_many_streams": 429,
    "store_full": 503,
    "overloaded": 503,
    "store_unavailable": 503,
}
_DRAWN = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>\w+) +(?P<code>\w+) (?P<status>\d+) (?P<helps>yes|no)\b")


def drawn() -> dict[str, tuple[str, str, int, bool]]:
    """The tree in the docstring: the parent, code, status and helpfulness of each class."""
    path, tree = ["AckerError"], {}
    for line in str(errors.__doc__).splitlines():
        if row := _DRAWN.match(line):
            del path[len(row["branch"]) // 4 :]
            tree[row["name"]] = (path[-1], row["code"], int(row["status"]), row["helps"] == "yes")
            path.append(row["name"])
    return tree


def built() -> dict[str, tuple[str, str, int, bool]]:
    return {
        cls.__name__: (str(cls.__base__ and cls.__base__.__name__), cls.code, cls.status, cls.retryable_by_default)
        for cls in errors.known().values()
    }


def test_the_tree_drawn_is_the_tree_built() -> None:
    assert drawn() == built()


def test_the_codes_are_those_of_the_contract() -> None:
    assert {code: cls.status for code, cls in errors.known().items() if cls is not ServiceError} == CONTRACT


@pytest.mark.parametrize("cls", errors.known().values(), ids=lambda cls: cls.__name__)
def test_a_problem_says_by_default_whether_trying_again_helps(cls: type[ServiceError]) -> None:
    assert cls("why").retryable is cls.retryable_by_default
    assert cls("why", retryable=not cls.retryable_by_default).retryable is not cls.retryable_by_default


def test_a_caller_may_catch_a_problem_by_its_kind() -> None:
    with pytest.raises(errors.NotFound, match="gone"):
        raise UnknownRoot("gone")


def test_a_document_is_that_of_the_rfc_with_the_acker_members_and_the_extra_ones() -> None:
    assert InvalidRequest("root_id is missing", index=17).document() == {
        "type": "urn:acker:problem:invalid",
        "title": "The request is not valid",
        "status": 422,
        "detail": "root_id is missing",
        "code": "invalid",
        "retryable": False,
        "index": 17,
    }


@pytest.mark.parametrize("cls", errors.known().values(), ids=lambda cls: cls.__name__)
def test_a_problem_comes_back_from_its_document(cls: type[ServiceError]) -> None:
    problem = cls("in words", retryable=not cls.retryable_by_default, retry_after_ms=200, root_id="00000000000000a1")
    again = errors.from_document(json.loads(json.dumps(problem.document())))
    assert type(again) is cls
    assert (str(again), again.detail, again.retryable) == ("in words", "in words", not cls.retryable_by_default)
    assert again.extra == {"retry_after_ms": 200, "root_id": "00000000000000a1"}
    assert again.document() == problem.document()


@pytest.mark.parametrize(
    "document",
    [
        {
            "type": "urn:acker:problem:teapot",
            "title": "I am a teapot",
            "status": 418,
            "detail": "short and stout",
            "code": "teapot",
            "retryable": True,
            "handle": "here",
        },
        {
            "type": "about:blank",
            "title": "Bad Gateway",
            "status": 502,
            "detail": "of a proxy",
            "code": ["no", "code"],
            "retryable": False,
        },
    ],
)
def test_a_code_that_is_not_known_gives_a_plain_problem_that_tells_the_document_again(document: dict[str, Any]) -> None:
    problem = errors.from_document(document)
    assert type(problem) is ServiceError
    assert (problem.detail, problem.retryable) == (document["detail"], document["retryable"])
    assert problem.extra["code"] == document["code"]
    assert problem.document() == document


@pytest.mark.parametrize(
    ("document", "kind", "detail"),
    [
        ({}, ServiceError, "Something went wrong"),
        ({"title": "Bad Gateway", "status": 502}, ServiceError, "Bad Gateway"),
        ({"code": "conflict"}, Conflict, "The root is held by another emit"),
        ({"code": "max_spout_pending"}, MaxSpoutPending, "Too many roots are pending"),
        ({"code": "store_unavailable", "detail": "down"}, StoreUnavailable, "down"),
    ],
)
def test_a_document_that_says_little_is_not_retryable_and_has_its_title_for_a_detail(
    document: dict[str, Any], kind: type[ServiceError], detail: str
) -> None:
    problem = errors.from_document(document)
    assert (type(problem), problem.detail, problem.retryable) == (kind, detail, False)


class Mine(errors.Overloaded):
    """A kind of a problem that a program makes for itself."""


def test_a_programs_own_kind_of_a_problem_does_not_take_the_place_of_its_base() -> None:
    assert errors.known()["overloaded"] is errors.Overloaded
    assert type(errors.from_document(Mine("busy").document())) is errors.Overloaded


def test_the_document_given_is_left_as_it_was() -> None:
    document = InvalidRequest("why", index=1).document()
    errors.from_document(document)
    assert document == InvalidRequest("why", index=1).document()
