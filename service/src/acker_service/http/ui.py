"""Serves the files of the page `/ui/`. They need no key and hold no data: what the page shows, it asks for."""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from acker_protocol.errors import MethodNotAllowed, NotFound
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from acker_service.http.problems import respond

PATH = "/ui"
INDEX = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The files that are served, by the ends of their names."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",  # asked for again each time, and mostly answered 304
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """A file of the page: its bytes, its media type, and the tag by which a browser asks whether it has changed."""

    content: bytes
    media_type: str
    etag: str


@functools.cache
def read_files() -> Mapping[str, PageFile]:
    """Read all files of the page, by their paths below `/ui/`."""
    return dict(_walk(files("acker_service.web"), ""))


def install(app: FastAPI) -> None:
    """Serve the page at `/ui/`, and send those who ask for `/ui` there."""
    mount = Mount(PATH, Page())
    mount.path_regex = re.compile(f"^{PATH}(?P<path>(/.*)?)$")  # a mount leaves out the address without its slash
    app.router.routes.append(mount)


class Page:
    """The page as an application; all its requests are counted under one address."""

    path_format = f"{PATH}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file, 304, a redirect or a problem."""
        scope["route"] = self
        await _answer(scope)(scope, receive, send)


def _answer(scope: Scope) -> Response:
    if scope["method"] not in _METHODS:
        refusal = respond(MethodNotAllowed(f"{scope['method']} {scope['path']}: the page is read with GET"))
        refusal.headers["Allow"] = ", ".join(_METHODS)
        return refusal
    if scope["path"] == PATH:
        return RedirectResponse("ui/", status_code=308)
    name = scope["path"].removeprefix(f"{PATH}/") or INDEX
    file = read_files().get(name)
    if file is None:
        return respond(NotFound(f"{scope['path']} is no file of the page; the page is {PATH}/"))
    headers = HEADERS | {"ETag": file.etag}
    if file.etag in Headers(scope=scope).get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, PageFile]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{path}{each.name}/")
        elif (media_type := MEDIA_TYPES.get(each.name[each.name.rfind(".") :])) is not None:
            content = each.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            yield path + each.name, PageFile(content=content, media_type=media_type, etag=etag)
