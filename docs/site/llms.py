"""The file `llms.txt`: every page with one sentence of it, for programs that read documentation (llmstxt.org)."""

import re
from collections.abc import Mapping

from docs.site.pages import Page

_SUMMARY = (
    "Know when everything that one message set off is done: an HTTP service on Redis that tracks trees of messages."
)


def index(navigation: Mapping[str, str], pages: Mapping[str, Page]) -> str:
    """Return the list of all pages in the order of the site."""
    lines = [f"- [{title}]({path}): {described(pages[path])}" for path, title in navigation.items()]
    return "\n".join(["# Acker", "", f"> {_SUMMARY}", "", "## Pages", "", *lines, ""])


def described(page: Page) -> str:
    """Return the first sentence of the first paragraph of a page, as plain text."""
    without = re.sub(
        r"^```(?s:.*?)^```$|<!--(?s:.*?)-->|^#.*$|^===.*$|^ {4}.*$|^!\[.*$", "", page.text, flags=re.MULTILINE
    )
    paragraph = next((each for each in re.split(r"\n\s*\n", without) if re.match(r"\s*[A-Za-z*`\[]", each)), "")
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("**", "")
    first = re.match(r".*?[.:](?= |$)", plain)
    return (first[0] if first else plain).rstrip(":")
