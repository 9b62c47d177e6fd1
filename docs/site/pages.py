"""Make the pages of the repository ready for the site: text in, text out.

The pages keep their places, so that a link from one page to another holds in the repository and in the site. What
differs is done here: examples in several languages become tabs, and a link to a file that is no page leads to a page
that shows the file.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TABS = {"sh": "Shell", "python": "Python", "js": "JavaScript"}
"""The languages that stand beside each other in tabs, with the names of their tabs."""

NOT_SEARCHED = ("CHANGELOG.md", "LICENSE.md")
"""Pages that have words of all others, and answer nothing."""

_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_FENCE = re.compile(r"```(?P<language>\w*)\n(?P<code>.*?)^```\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
_CODE_OR_LINK = re.compile(rf"(?P<code>^```.*?^```$|`[^`\n]+`(?!\]))|{_LINK.pattern}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page in the site's folder of pages."""

    path: str
    """Where it stands, from the root of the repository."""
    text: str


def ready(page: Page, files: Mapping[str, str]) -> Page:
    """Return a page as the site shows it; ``files`` maps each path of a file that is linked to that of its page."""
    head = _UNSEARCHED if page.path in NOT_SEARCHED else ""
    return Page(path=page.path, text=head + _indented(_tabbed(_linked(page, files))))


def linked_files(page: Page) -> Iterator[str]:
    """Yield the paths, from the root of the repository, of all that a page links to but for other sites."""
    for match in _CODE_OR_LINK.finditer(page.text):
        if match["path"]:
            yield target(page.path, match["path"])


def target(page: str, link: str) -> str:
    """Return where a relative link of a page leads, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def file_page(path: str, text: str) -> Page:
    """Return the page that shows a file; search leaves it out."""
    language = posixpath.splitext(path)[1].removeprefix(".") or "text"
    fence = "`" * 3
    while fence in text:
        fence += "`"
    head = f"{_UNSEARCHED}# {posixpath.basename(path)}\n\n`{path}` in the repository.\n"
    return Page(path=f"{path}.md", text=f"{head}\n{fence}{language}\n{text.rstrip()}\n{fence}\n")


def _linked(page: Page, files: Mapping[str, str]) -> str:
    """Let links to files lead to their pages; a link to a folder becomes its path."""

    def replaced(match: re.Match[str]) -> str:
        if not match["path"]:
            return match[0]
        to = target(page.path, match["path"])
        if to in files:
            there = posixpath.relpath(files[to], posixpath.dirname(page.path) or ".")
            return f"[{match['text']}]({there}{match['anchor'] or ''})"
        if match["path"].endswith(".md"):
            return match[0]
        plain = match["text"].strip("`")
        return f"`{to}`" if to.endswith(plain.rstrip("/")) else f"{match['text']} (`{to}`)"

    return _CODE_OR_LINK.sub(replaced, page.text)


def _tabbed(text: str) -> str:
    """Put examples that stand behind each other in different languages into tabs."""
    written, at = [], 0
    fences = list(_FENCE.finditer(text))
    while fences:
        group = [fences.pop(0)]
        while fences and fences[0].start() == group[-1].end() and _joins(group, fences[0]):
            group.append(fences.pop(0))
        if len(group) > 1:
            written += [text[at : group[0].start()], "\n", *map(_tab, group), "\n"]
            at = group[-1].end()
    return "".join([*written, text[at:]])


def _joins(group: list[re.Match[str]], fence: re.Match[str]) -> bool:
    """Whether a block is the same example in another language."""
    languages = {one["language"] for one in group}
    return languages <= TABS.keys() and fence["language"] in TABS.keys() - languages


def _tab(fence: re.Match[str]) -> str:
    code = "".join(f"    {line}\n" for line in fence[0].splitlines())
    return f'=== "{TABS[fence["language"]]}"\n\n{code}\n'


def _indented(text: str) -> str:
    """Indent the items of a list within a list as Zensical's parser of Markdown needs it, by four."""
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece if piece.startswith("```") else re.sub(r"^ {2,3}(?=- )", "    ", piece, flags=re.MULTILINE)
        for piece in pieces
    )
