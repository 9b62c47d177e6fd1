"""Builds the site of the documentation into `.site/html`, and serves it with ``--serve``.

`.site/pages` has the pages as Zensical reads them, in the places that they have in the repository. `.site/html` has a
folder for each version, and `versions.json`, from which the pages offer the others: those that are there already stay.
"""

import argparse
import functools
import http.server
import json
import posixpath
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site.generated import command_help, python_api
from docs.site.llms import index
from docs.site.pages import Page, file_page, linked_files, ready

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("zensical.toml")
BUILT = ROOT / ".site"
IMAGES = (".svg", ".png")


def navigation() -> dict[str, str]:
    """Return the paths of all pages in the order of the site, each with its title there."""
    return {path: title for title, path in _leaves(tomllib.loads(CONFIG.read_text())["project"]["nav"])}


def written_pages() -> Iterator[Page]:
    """Yield the pages of the navigation that are files of the repository."""
    for path in navigation():
        if path == "LICENSE.md":
            yield Page(path=path, text=f"# License\n\n```text\n{(ROOT / 'LICENSE').read_text()}```\n")
        elif (ROOT / path).exists():
            yield Page(path=path, text=(ROOT / path).read_text())


def site_pages() -> list[Page]:
    """Return all pages as Zensical reads them."""
    written = list(written_pages())
    generated = [command_help(), python_api()]
    known = {page.path for page in [*written, *generated]}
    files = {"LICENSE": "LICENSE.md"} | {
        path: f"{path}.md"
        for page in written
        for path in linked_files(page)
        if path not in known and (ROOT / path).is_file() and not path.endswith((*IMAGES, "LICENSE"))
    }
    shown = [file_page(path, (ROOT / path).read_text()) for path in files if path != "LICENSE"]
    return [*(ready(page, files) for page in [*written, *generated]), *shown]


def version() -> str:
    """Return the version that the pages are of."""
    return str(tomllib.loads((ROOT / "service/pyproject.toml").read_text())["project"]["version"])


def versions(html: Path) -> list[str]:
    """Return the versions whose pages are in a folder, the newest first."""
    found = [path.parent.name for path in html.glob("*/index.html")]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def build(folder: Path = BUILT) -> Path:
    """Build the site of this version anew; return the folder of its HTML."""
    built = folder / "html" / version()
    for old in (folder / "pages", folder / "built", built):
        shutil.rmtree(old, ignore_errors=True)
    pages = site_pages()
    for page in pages:
        place = folder / "pages" / page.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page.text)
    for image in (path for path in (ROOT / "docs/images").rglob("*") if path.suffix in IMAGES):
        place = folder / "pages" / image.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, place)
    shutil.copyfile(CONFIG.with_name("site.css"), folder / "pages/site.css")
    (folder / "pages/llms.txt").write_text(index(navigation(), {page.path: page for page in pages}))
    shutil.copyfile(CONFIG, folder / CONFIG.name)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--config-file", CONFIG.name]
    subprocess.run(command, cwd=folder, check=True)
    for page in pages:
        (folder / "built" / page.path).write_text(page.text)  # what llms.txt leads to
    built.parent.mkdir(exist_ok=True)
    (folder / "built").rename(built)
    offer_versions(built.parent)
    return built


def offer_versions(html: Path) -> None:
    """Write which versions there are, and let the address without one lead to the newest."""
    newest, *older = versions(html)
    listed = [{"version": newest, "title": newest, "aliases": ["latest"]}]
    listed += [{"version": name, "title": name, "aliases": []} for name in older]
    (html / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (html / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>Acker</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/">\n'
    )


def serve(html: Path, port: int) -> None:
    """Serve the site on this machine until Ctrl-C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"The documentation is on http://127.0.0.1:{port}/")  # noqa: T201 - a program that tells where it serves
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def _leaves(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield title, posixpath.normpath(inner)
            else:
                yield from _leaves(inner)


def main() -> None:
    """Read the command line, build the site, and serve it if asked to."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve the site when it is built")
    parser.add_argument("--port", type=int, default=8800, help="on this port of this machine [8800]")
    given = parser.parse_args()
    html = build()
    if given.serve:
        serve(html.parent, given.port)


if __name__ == "__main__":
    main()
