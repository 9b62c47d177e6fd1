"""No block of the documentation can go without being run, and none whose answer is another passes."""

import re
from pathlib import Path

import pytest

from tests.support.examples import run
from tests.support.pages import MARK, PAGES, ROOT, fences, groups, languages, own_tests

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_is_run_or_says_above_it_who_reads_it_or_why_nobody_does(page: Path) -> None:
    text = page.read_text()
    if not MARK.fullmatch(text.partition("\n")[0]):
        groups(text)  # tests/docs/test_pasting.py runs these
    for test in own_tests(text):
        assert page.name in (ROOT / test).read_text(), f"{test} does not read {page.name}"


def test_every_link_of_the_documentation_leads_to_a_page() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(links) > 50
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_link_to_a_section_leads_to_one() -> None:
    links = [
        (page, path or page.name, section)
        for page in PAGES
        for path, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    ]
    assert len(links) > 40
    assert [(page.name, path, at) for page, path, at in links if at not in sections(page.parent / path)] == []


def sections(page: Path) -> set[str]:
    """The names by which links find the sections of a page, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_shell_block_has_a_comment(page: Path) -> None:
    """zsh, the shell of macOS, takes none where a block is pasted."""
    blocks = [fence.code for fence in fences(page.read_text()) if fence.language == "sh"]
    assert [line for block in blocks for line in block.splitlines() if re.search(r"(^|\s)#", line)] == []


def test_the_program_of_the_tutorial_is_the_blocks_of_its_page() -> None:
    page, program = ((ROOT / path).read_text() for path in ("docs/tutorial.md", "examples/tutorial.py"))
    shown = [line for fence in fences(page) if fence.language == "python" for line in fence.code.splitlines() if line]
    assert [line for line in program.splitlines() if line][1:] == shown


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("ruby is not run", "```ruby\nputs 1\n```"),
        ("a block of no language is not run", "```\nplain\n```"),
        ("ruby is not run", "<!-- not run: -->\n```ruby\nputs 1\n```"),
        ("ruby is not run", "<!-- not run: far too long -->\n\n```ruby\nputs 1\n```"),
        ("opens a block that is not run", "  ```sh\n  echo 1\n  ```"),
        ("opens a block that is not run", "> ```sh\n> echo 1\n> ```"),
        ("opens a block that is not run", "~~~sh\necho 1\n~~~"),
        ("opens a block that is not run", "```sh title\necho 1\n```"),
        ("does not end", "```sh\necho 1"),
        ("an answer to no example", "```json\n1\n```"),
    ],
)
def test_a_block_that_would_not_be_run_is_a_fault(fault: str, text: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        groups(text)


@pytest.mark.parametrize("mark", ["not run: a drawing", "tested by tests/test_readme.py"])
def test_a_block_that_says_why_it_is_not_run_is_left_out_and_the_next_one_is_not(mark: str) -> None:
    [group] = groups(f"<!-- {mark} -->\n```\n--->\n```\n```sh\necho 1\n```")
    assert group.examples == {"sh": ["echo 1"]}


def test_a_page_is_run_in_its_languages_unless_its_first_line_names_a_test(tmp_path: Path) -> None:
    text = "```python\n1\n```\n```sh\ntrue\n```\n"
    page, own = tmp_path / "page.md", tmp_path / "own.md"
    page.write_text(text)
    own.write_text(f"<!-- tested by tests/test_readme.py -->\n{text}")
    assert languages(page) == ["sh", "python"]
    assert languages(own) == []


def page(code: str, answer: str, kind: str = "json") -> str:
    return f"```python\n{code}\n```\n```{kind}\n{answer}\n```"


@pytest.mark.parametrize(
    ("kind", "came", "shown"),
    [
        ("json", '{"a": 1} 200', '{"a": 1}\n200'),
        ("json", '{"at_ms": 5, "cursor": "AQh"}', '{"at_ms": 1790000000000, "cursor": "…"}'),
        ("json", '["one two"]', '["one …"]'),
        ("text", "id: AQh\ndata: 1", "id: …\ndata: 1"),
    ],
)
def test_an_answer_that_is_the_one_shown_passes(kind: str, came: str, shown: str, tmp_path: Path) -> None:
    run(page(f"print({came!r})", shown, kind), "python", url=NOWHERE, folder=tmp_path)


@pytest.mark.parametrize(
    ("kind", "came", "shown"),
    [
        ("json", '{"a": 1} 201', '{"a": 1} 200'),
        ("json", '{"a": 1, "b": 2}', '{"a": 1}'),
        ("json", '{"a": 1}', '{"a": 1, "b": 2}'),
        ("json", "[1, 2]", "[1]"),
        ("json", '{"at_ms": -5}', '{"at_ms": 1790000000000}'),
        ("json", '{"at_ms": null}', '{"at_ms": 1790000000000}'),
        ("json", '{"cursor": null}', '{"cursor": "…"}'),
        ("json", '["two"]', '["one …"]'),
        ("text", "id: AQh\ndata: 2", "id: …\ndata: 1"),
        ("text", "data: 1\ndata: 1", "data: 1"),
    ],
)
def test_an_answer_that_is_another_does_not_pass(kind: str, came: str, shown: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="but this came"):
        run(page(f"print({came!r})", shown, kind), "python", url=NOWHERE, folder=tmp_path)


def test_an_example_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)1 groups of 2 ran; then:.*no such luck"):
        run(page("print(1)", "1") + "\n" + page("raise SystemExit('no such luck')", "2"), "python",
            url=NOWHERE, folder=tmp_path)  # fmt: skip


def test_an_example_that_prints_what_no_answer_shows_does_not_pass(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="but this came"):
        run(page("print(1)", "1") + "\n```python\nprint(2)\n```", "python", url=NOWHERE, folder=tmp_path)


def test_without_the_program_the_test_is_skipped_here_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        run("```js\n1;\n```", "js", url=NOWHERE, folder=tmp_path)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="node is not installed"):
        run("```js\n1;\n```", "js", url=NOWHERE, folder=tmp_path)
