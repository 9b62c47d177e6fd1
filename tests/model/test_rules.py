"""Tests how mutants find the rules that they break, and that every one of them finds its rule."""

import textwrap

import pytest

from tests.model.state_machine_mutants import IN_LUA, IN_PYTHON
from tests.model.store_mutants import MUTANTS
from tests.support.rules import Rules, rules_of_the_source, source_texts

LUA = "service/src/acker_service/redis/lua/"
EVERY = [*MUTANTS, *IN_LUA, *IN_PYTHON]

COUNTS = """\
local function add(call, n)
  -- rule: what is added is counted
  call.count = call.count + n
  -- rule: a full call is written
  -- A call is full at a hundred.
  if call.count > 100 then
    write(call)
    call.count = 0
  end
  return call
end

local function take(call, n)
  return call.items[n]
end
"""
STORE = """\
class Store:
    def read(self, key: str) -> list[int]:
        # rule: what is read is what was written
        return [
            int(value)

            for value in self.values[key]
        ]
"""


def test_every_mutant_breaks_the_statement_of_its_rule() -> None:
    wrong = list[str]()
    for mutant in EVERY:
        try:
            assert mutant.broken() != mutant.source(), f"nothing is broken: {mutant.rule}"
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_every_broken_module_is_python() -> None:
    for mutant in EVERY:
        if mutant.path.endswith(".py"):
            compile(mutant.broken(), mutant.path, "exec")


def test_every_rule_of_the_source_is_broken_by_a_mutant() -> None:
    assert rules_of_the_source().words == {mutant.rule for mutant in EVERY}


def test_a_fragment_of_the_statement_is_replaced() -> None:
    rules = Rules({"counts.lua": COUNTS})
    assert rules.broken("what is added is counted", "+ n", "- n") == COUNTS.replace("+ n", "- n")


def test_a_statement_is_replaced_with_all_that_is_indented_below_it() -> None:
    instead = "call.count = 0\nif true then\n  return nil\nend"
    text = Rules({"counts.lua": COUNTS}).broken("a full call is written", None, instead)
    begin, end = COUNTS.index("  if call.count"), COUNTS.index("  return call\n")
    assert text == COUNTS[:begin] + "  call.count = 0\n  if true then\n    return nil\n  end\n" + COUNTS[end:]


def test_a_statement_that_is_replaced_by_nothing_leaves_no_line() -> None:
    rules = Rules({"counts.lua": COUNTS, "store.py": STORE})
    assert rules.broken("what is added is counted", None, "") == COUNTS.replace("  call.count = call.count + n\n", "")
    assert rules.broken("what is read is what was written", None, "") == STORE[: STORE.index("        return [")]


def test_a_fragment_of_several_lines_is_written_as_if_its_statement_were_not_indented() -> None:
    text = Rules({"store.py": STORE}).broken(
        "what is read is what was written", "[\n    int(value)\n", "[\n    value\n"
    )
    assert text == STORE.replace("int(value)", "value")


def test_a_rule_that_is_missing_is_said_with_what_to_do() -> None:
    with pytest.raises(
        AssertionError, match="no comment states the rule: a call is counted; write `-- rule: a call is"
    ):
        Rules({"counts.lua": COUNTS}).statement("a call is counted")


def test_a_rule_that_stands_twice_is_said_with_its_places() -> None:
    words = r"stands 2 times \(counts.lua:3, more.py:2\), give each its own words: what is added is counted"
    rules = Rules({"counts.lua": COUNTS, "more.py": "# rule: what is added is counted\ncount += n\n"})
    with pytest.raises(AssertionError, match=words):
        rules.statement("what is added is counted")


@pytest.mark.parametrize(("fragment", "times"), [("- n", 0), ("call.count", 2), ("write(call)", 0)])
def test_a_fragment_that_does_not_stand_once_in_the_statement_is_said_with_the_rule(fragment: str, times: int) -> None:
    words = f"'{fragment}' stands {times} times in the statement at counts.lua:3, .* below the rule: what is added"
    with pytest.raises(AssertionError, match=words.replace("(", r"\(").replace(")", r"\)")):
        Rules({"counts.lua": COUNTS}).broken("what is added is counted", fragment, "")


@pytest.mark.parametrize("text", ["-- rule: nothing is below\n", "-- rule: nothing is below\n\nlocal count = 0\n"])
def test_a_rule_without_a_statement_below_it_is_an_error(text: str) -> None:
    with pytest.raises(AssertionError, match=r"no statement stands below the rule at counts\.lua:1"):
        Rules({"counts.lua": text})


def marked_lines(texts: dict[str, str], rules: Rules, rule: str) -> tuple[str, str]:
    """Return a rule's comment and statement, as if they were not indented, and the text of their file without them."""
    place = rules.statement(rule)
    lines = texts[place.path].splitlines(keepends=True)
    begin = next(at for at in range(place.start, -1, -1) if lines[at].strip().endswith(f" rule: {rule}"))
    return textwrap.dedent("".join(lines[begin : place.stop])), "".join([*lines[:begin], *lines[place.stop :]])


@pytest.mark.parametrize(
    ("rule", "path", "above"),
    [
        ("a topology that has gone is not listed", "removal.lua", "      redis.call('DEL', keys[1], keys[2])\n"),
        (
            "of several failures the first that counts is kept, and the first of all as long as none does",
            "transitions.lua",
            "    return root.state == 'P' and 'p' or 'e'\n",
        ),
        (
            "the earliest deadline is the bucket's score",
            "mailboxes.lua",
            "    count = math.min(count * 2, PAGE_SIZE)\n",
        ),
    ],
    ids=["within its function", "into another function", "into another file"],
)
def test_a_line_of_the_library_that_is_moved_with_its_rule_breaks_no_mutant(rule: str, path: str, above: str) -> None:
    texts, before = source_texts(), rules_of_the_source()
    moved, texts[before.statement(rule).path] = marked_lines(texts, before, rule)
    text = texts[LUA + path]
    assert text.count(above) == 1
    indent = above[: len(above) - len(above.lstrip())]
    texts[LUA + path] = text.replace(above, textwrap.indent(moved, indent) + above)
    rules = Rules(texts)
    assert rules.statement(rule).path == LUA + path
    above_it, _, below_it = texts[LUA + path].partition(textwrap.indent(moved, indent))
    for mutant in EVERY:
        broken = rules.broken(mutant.rule, mutant.old, mutant.new)
        assert broken != texts[rules.statement(mutant.rule).path]
        if mutant.rule == rule:
            assert broken.startswith(above_it)
            assert broken.endswith(below_it)


def test_every_mutant_survives_a_move_of_its_statement_into_another_file() -> None:
    texts = source_texts()
    for mutant in EVERY:
        moved, _ = marked_lines(texts, rules_of_the_source(), mutant.rule)
        elsewhere = f"function elsewhere()\n{textwrap.indent(moved, '      ')}end\n"
        broken = Rules({"elsewhere.lua": elsewhere}).broken(mutant.rule, mutant.old, mutant.new)
        assert broken != elsewhere
        statement = mutant.broken().splitlines()
        assert all(line.strip() in map(str.strip, statement) for line in broken.splitlines()[1:-1])
