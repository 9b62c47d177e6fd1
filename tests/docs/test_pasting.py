"""What the documentation shows is what happens: every page with an example is run, in each of its languages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.support.examples import run, serves
from tests.support.pages import DOCS, PAGES, ROOT, languages, runnable
from tests.support.servers import AckerProcess, acker_serve, free_port
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(400)

EXAMPLES = [
    (page, language)
    for page in PAGES
    for block in languages(page)
    for language in {"sh": ("sh", "zsh")}.get(block, (block,))
]
"""Shell blocks are pasted twice: into bash, and into the shell that macOS has."""

STORE = "127.0.0.1:6379"
"""Where the examples find the acker's Redis; like the acker's address, another one takes its place."""


@pytest.fixture(scope="module")
def store() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, store: str) -> Iterator[Callable[[str], AckerProcess]]:
    """Ackers by name, each started when it is first asked for."""
    with ExitStack() as stack:

        @cache
        def start(name: str) -> AckerProcess:
            folder = tmp_path_factory.mktemp(name)
            options = ("--store-port", store.rpartition(":")[2]) if name == "pages" else ()
            acker = stack.enter_context(acker_serve(folder, "--data-dir", str(folder / "data"), *options))
            eventually_true(lambda: acker.http.get("/readyz").json()["ticking"])  # as the pages show it
            return acker

        yield start


@pytest.fixture
def acker(serving: Callable[[str], AckerProcess], page: Path) -> AckerProcess:
    """An acker that has no topology but the default one.

    The pages of the reference show that untouched; the others have spout tasks of their own in it, and share another.
    """
    acker = serving("reference" if page.parent == DOCS / "reference" else "pages")
    for topology in acker.http.get("/v1/topologies").json()["topologies"]:
        if topology["topology"] != "default":
            gone = acker.http.delete(f"/v1/topologies/{topology['topology']}?force=true&discard=true")
            assert gone.status_code == 204
    return acker


@pytest.mark.parametrize(
    ("page", "language"), EXAMPLES, ids=[f"{page.relative_to(ROOT)}-{language}" for page, language in EXAMPLES]
)
def test_a_page_works_when_pasted(page: Path, language: str, acker: AckerProcess, store: str, tmp_path: Path) -> None:
    text = runnable(page).replace(STORE, store)
    url = f"http://127.0.0.1:{free_port()}" if serves(text, language) else acker.url
    run(text, language, url=url, folder=tmp_path)
