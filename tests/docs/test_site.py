"""What the site makes of the pages, before Zensical reads them; `make test-docs` tries what Zensical makes of that."""

from docs.site.__main__ import navigation
from docs.site.llms import described
from docs.site.pages import Page, file_page, linked_files, ready
from tests.support.pages import DOCS, ROOT

GENERATED = {"docs/reference/command-help.md", "docs/reference/python-api.md"}
"""Pages that the site alone has."""

EXAMPLES = "```sh\ncurl 1\n```\n```python\ncall(1)\n```\n```json\n1\n```\n"


def made(text: str, **files: str) -> str:
    return ready(Page(path="docs/page.md", text=text), files).text


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")}
    assert {path for path in navigation() if path.startswith("docs/")} == pages | GENERATED
    assert [
        path for path in navigation() if path not in GENERATED | {"LICENSE.md"} and not (ROOT / path).exists()
    ] == []


def test_examples_in_several_languages_are_tabs_and_their_answer_stands_below() -> None:
    shell, python = "    ```sh\n    curl 1\n    ```\n", "    ```python\n    call(1)\n    ```\n"
    tabs = f'\n=== "Shell"\n\n{shell}\n=== "Python"\n\n{python}\n\n'
    assert made(EXAMPLES) == f"{tabs}```json\n1\n```\n"


def test_blocks_of_one_language_and_an_example_alone_stay_as_they_are() -> None:
    text = "```sh\na\n```\n```sh\nb\n```\n\n```python\n1\n```\n```text\n1\n```\n"
    assert made(text) == text


def test_a_link_to_a_file_leads_to_its_page_and_a_link_to_a_folder_becomes_its_path() -> None:
    files = {"compose.yaml": "compose.yaml.md"}
    page = Page(
        path="docs/page.md", text="[it](../compose.yaml) [tests](../tests/kafka) [all](../tests) [p](http.md#a)"
    )
    assert list(linked_files(page)) == ["compose.yaml", "tests/kafka", "tests", "docs/http.md"]
    assert ready(page, files).text == "[it](../compose.yaml.md) tests (`tests/kafka`) all (`tests`) [p](http.md#a)"


def test_what_looks_like_a_link_in_code_is_none() -> None:
    text = "`[a](b)`\n\n```python\nx[0](y)\n```\n"
    assert made(text) == text
    assert list(linked_files(Page(path="docs/page.md", text=text))) == []


def test_a_list_in_a_list_is_indented_by_four_outside_of_code() -> None:
    assert made("- a\n  - b\n\n```text\n  - c\n```\n") == "- a\n    - b\n\n```text\n  - c\n```\n"


def test_a_file_that_has_fences_is_shown_whole() -> None:
    page = file_page("examples/a.py", '"""\n```\n"""\n')
    assert page.path == "examples/a.py.md"
    assert page.text.endswith('````py\n"""\n```\n"""\n````\n')


def test_a_page_is_described_by_its_first_sentence() -> None:
    page = Page(
        path="docs/page.md", text="<!-- not run: x -->\n# Title\n\n```sh\nA. B.\n```\n\nOne [two](three.md). Four.\n"
    )
    assert described(page) == "One two."
