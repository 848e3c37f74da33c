"""The dashboard's files: pages, style and scripts of the package.

They need no token, as they say nothing about the streams. Their headers let a browser run no other script and
connect to no other machine.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Path, Response

from anabranch.service.errors import unknown

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

pages = APIRouter(include_in_schema=False)

_FOLDER = files("anabranch.service") / "dashboard"
_FILES = {
    entry.name: (entry.read_bytes(), TYPES[suffix])
    for entry in _FOLDER.iterdir()
    if (suffix := entry.name[entry.name.rfind(".") :]) in TYPES
}


@pages.get("/")
def index() -> Response:
    return file("index.html")


@pages.get("/dashboard/{name}")
def file(name: Annotated[str, Path()]) -> Response:
    if name not in _FILES:
        raise unknown(f"the dashboard has no file {name[:100]!r}")
    content, kind = _FILES[name]
    return Response(content, media_type=kind, headers=HEADERS)
