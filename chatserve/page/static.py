"""The page itself: a few files, read once, told apart by what is in them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.server.errors import Missing, shown

WEB: Final = Path(__file__).parents[2] / "web"
"""Beside this package, in a checkout as where it is installed."""
_INDEX: Final = "/web/index.html"
_KINDS: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""All that a page is made of; other files in the folder are not for it."""


@dataclass(frozen=True, slots=True)
class WebFile:
    """packed: the content as gzip has it.  tag: names both, for a browser that has one of them already."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


def read_files(folder: Path = WEB) -> dict[str, WebFile]:
    """By the path that each is served under. Raises OSError."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _KINDS and path.is_file():
            content = path.read_bytes()
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
            packed = gzip.compress(content, mtime=0)
            files[f"/web/{path.relative_to(folder).as_posix()}"] = WebFile(content, packed, _KINDS[path.suffix], tag)
    return files


class StaticFiles:
    """Looked up among those that were found at the start: no path leads anywhere else."""

    def __init__(self, files: Mapping[str, WebFile]) -> None:
        self._files = files

    @property
    def public(self) -> Collection[str]:
        """The paths that need no key: somebody has to ask for it."""
        return {"/", *self._files}

    def routes(self) -> list[Route]:
        return [Route("/", self._index), Route("/web/{path:path}", self._file)]

    async def _index(self, request: Request) -> Response:
        return self._answer(request, _INDEX)

    async def _file(self, request: Request) -> Response:
        return self._answer(request, f"/web/{request.path_params['path']}")

    def _answer(self, request: Request, path: str) -> Response:
        file = self._files.get(path)
        if file is None:
            raise Missing(f"There is no file {shown(path)}.", code="route_not_found")
        headers = {"Cache-Control": "no-cache", "ETag": file.tag, "Vary": "Accept-Encoding"}
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if _takes_gzip(request):
            return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.kind)
        return Response(file.content, headers=headers, media_type=file.kind)


def _takes_gzip(request: Request) -> bool:
    """Of a list like `gzip;q=0, br`, one without a weight of nought; `*` is not meant by anybody."""
    asked = [part.replace(" ", "").split(";") for part in request.headers.get("accept-encoding", "").split(",")]
    return any(part[0] == "gzip" and part[1:] not in (["q=0"], ["q=0.0"]) for part in asked)
