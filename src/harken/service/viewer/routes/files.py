"""The built files of the page, read once from the package.

A path is looked up among the files that exist, so no path leads out of their folder.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_HASHED_FOLDER = "assets/"
"""The names of the files in this folder contain the hash of their content."""
_MAX_DEPTH = 4
NOT_BUILT = "The page of the viewer is not built: run `make web` in the checkout of Harken.\n"
routes = APIRouter(include_in_schema=False)


def read_page_files() -> dict[str, bytes]:
    """Return the built files by path. Empty if the page was not built."""
    contents: dict[str, bytes] = {}
    _read_folder(files("harken") / "web", "", contents)
    return contents


def _read_folder(folder: Traversable, prefix: str, contents: dict[str, bytes]) -> None:
    if prefix.count("/") > _MAX_DEPTH or not folder.is_dir():
        return
    for item in folder.iterdir():
        path = prefix + item.name
        if item.is_dir():
            _read_folder(item, f"{path}/", contents)
        elif _media_type(path) is not None:
            contents[path] = item.read_bytes()


@routes.get("/{path:path}")
async def page_file(request: Request, path: str) -> Response:
    """Return a built file; the page itself at `/`."""
    contents: dict[str, bytes] = request.app.state.page_files
    if path == "" and "index.html" not in contents:
        return PlainTextResponse(NOT_BUILT)
    name = path or "index.html"
    data, media_type = contents.get(name), _media_type(name)
    if data is None or media_type is None:
        raise HTTPException(404)
    is_hashed = name.startswith(_HASHED_FOLDER)
    caching = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
    return Response(data, media_type=media_type, headers={"cache-control": caching})


def _media_type(path: str) -> str | None:
    _, dot, suffix = path.rpartition(".")
    return _TYPES.get(f"{dot}{suffix}")
