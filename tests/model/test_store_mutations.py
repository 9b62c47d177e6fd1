"""Rules of the store broken on purpose: the test that each names must notice. Runs by `make mutations`, for minutes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from tests.model.state_machine_mutants import IN_LUA
from tests.model.store_mutants import MUTANTS
from tests.support.mutant import Mutant, run_against, run_tests

EVERY = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
TESTS = sorted({test for mutant in MUTANTS for test in mutant.tests})
FAILED = 1
"""What pytest exits with if tests ran and failed; whatever else keeps them from running has other numbers."""


@pytest.fixture
def redis(driven_url: str) -> Iterator[Redis]:
    """A Valkey that shows whether a broken library is one at all."""
    with Redis.from_url(driven_url) as redis:
        yield redis


def test_every_broken_library_loads(redis: Redis) -> None:
    refused = list[str]()
    for mutant in [*MUTANTS, *IN_LUA]:
        try:
            redis.function_load(mutant.library(), replace=True)
        except ResponseError as error:
            refused.append(f"{mutant.rule}: {error}")
    assert not refused


@pytest.mark.parametrize("test", TESTS)
def test_every_test_that_a_rule_names_exists(test: str) -> None:
    path, _, name = test.partition("::")
    function = name.partition("[")[0].rpartition("::")[2]
    assert not name or re.search(rf"^ *(async )?def {function}\(", Path(path).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.mutations
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", sorted({test.partition("::")[0] for test in TESTS}))
def test_with_no_rule_broken_all_these_tests_pass(path: str, tmp_path: Path) -> None:
    run = run_tests([test for test in TESTS if test.partition("::")[0] == path], tmp_path)
    assert run.code == 0, run.printed


@pytest.mark.mutations
@pytest.mark.timeout(600)
@EVERY
def test_a_rule_of_the_store_that_is_broken_is_noticed(mutant: Mutant, redis: Redis, tmp_path: Path) -> None:
    redis.function_load(mutant.library(), replace=True)
    run = run_against(mutant, tmp_path)
    assert run.code == FAILED, run.printed
    assert re.search(r"^[1-9]\d* (failed|error)", run.printed, re.MULTILINE), run.printed
