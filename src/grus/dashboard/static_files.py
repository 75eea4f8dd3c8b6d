"""Styles and scripts, under an address that changes with their content, so that browsers keep them for good.

Only names that were in the package at the start are served; the script of the charts comes out of the
installed plotly. Everything is read and packed once, at the first request.
"""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as version_of
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.model.errors import NotFound
from grus.server.http.dependencies import off_loop

router = APIRouter(include_in_schema=False)

KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PLOTLY = "plotly.js"
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class File:
    """One of them, as it is and packed."""

    plain: bytes
    packed: bytes
    kind: str
    tag: str


@router.get("/static/{version}/{name}")
async def static_file(version: str, name: str, request: Request) -> Response:
    """A file; of another version than the present one it is not to be kept."""
    if name not in names():
        raise NotFound(f"there is no file {name}")
    file = await off_loop(read, name)
    headers = {
        "ETag": f'"{file.tag}"',
        "Vary": "Accept-Encoding",
        "Cache-Control": FOR_GOOD if version == present() else "no-cache",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.plain, headers=headers, media_type=file.kind)
    headers["Content-Encoding"] = "gzip"
    return Response(file.packed, headers=headers, media_type=file.kind)


@cache
def names() -> frozenset[str]:
    """Return all names that are served."""
    here = (entry.name for entry in files(__package__).joinpath("static").iterdir())
    return frozenset({PLOTLY, *(name for name in here if name.rpartition(".")[2] in KINDS)})


@cache
def read(name: str) -> File:
    if name == PLOTLY:
        plain = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    else:
        plain = files(__package__).joinpath("static", name).read_bytes()
    tag = hashlib.sha256(plain).hexdigest()[:16]
    packed = gzip.compress(plain, 6, mtime=0)
    return File(plain=plain, packed=packed, kind=KINDS[name.rpartition(".")[2]], tag=tag)


@cache
def present() -> str:
    """Names the present content of all files but plotly's, whose own version names it."""
    own = "".join(read(name).tag for name in sorted(names() - {PLOTLY}))
    return hashlib.sha256(f"{own}{version_of('plotly')}".encode()).hexdigest()[:12]


def address(name: str) -> str:
    """Return the address of the file for a page. Scripts import each other by `./name.js`, which stays in one
    version.
    """
    if name not in names():
        raise LookupError(f"no static file has the name {name}")
    return f"/static/{present()}/{name}"
