"""Rendering of pages: a template, the page's values, and the parts that every page has.

These parts are the user, the menu, the token for its forms, and a policy that lets the browser load only
content of this server. Templates escape everything; there is no way around it (a test checks that). Errors of
a page are pages, too.
"""

from dataclasses import dataclass
from functools import cache

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from grus import __version__
from grus.api.parsing.validation_errors import mistakes_of
from grus.controlplane.security.rbac import is_admin
from grus.dashboard import static_files
from grus.model.errors import BadInput, GrusError
from grus.model.interfaces import AccessRole
from grus.model.texts.formatting import number, size, span
from grus.model.texts.plural_words import counted
from grus.server.http.auth_middleware import Caller
from grus.server.http.errors import Refusal, on_grus_error, on_http, on_refusal, on_validation

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer, a form's Origin would be "null"
}


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page in the menu; `key` opens it after `g`."""

    path: str
    name: str
    key: str
    admin: bool = False
    """True if only administrators see it."""


MENU = (
    MenuEntry("/", "Pool", "p"),
    MenuEntry("/queues", "Queues", "q"),
    MenuEntry("/jobs", "Jobs", "j"),
    MenuEntry("/runs", "Runs", "r"),
    MenuEntry("/history", "History", "h"),
    MenuEntry("/simulate", "Simulate", "s"),
    MenuEntry("/admin", "Admin", "a", admin=True),
    MenuEntry("/submit", "Submit a job", "n"),
)
OF_JOBS = frozenset({"graphs", "sweeps"})
"""Pages that are reached from those of jobs."""


def page(request: Request, template: str, /, *, status: int = 200, **values: object) -> Response:
    """The template with these values. It also has `user`, `csrf`, `menu`, `active` and `static(name)`.

    A value may be anything that the template can print; what people wrote needs no care: it is escaped.
    """
    caller = request.scope.get("state", {}).get("caller")
    known = isinstance(caller, Caller)
    shared = {
        "user": caller.user if known else None,
        "is_admin": known and is_admin(caller.user),
        "may_act": known and caller.user.role is not AccessRole.VIEWER,
        "csrf": caller.form if known else "",
        "menu": request.app.state.menu if known else (),
        "active": _active(request.url.path),
        "version": __version__,
    }
    text = templates().get_template(template).render({**shared, **values})
    return HTMLResponse(text, status, HEADERS)


def _active(path: str) -> str:
    """The entry of the menu that a page belongs to: that of /jobs/x is /jobs."""
    first = path.split("/")[1]
    return "/jobs" if first in OF_JOBS else f"/{first}"


@cache
def templates() -> Environment:
    made = Environment(
        loader=PackageLoader("grus.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["static"] = static_files.address
    made.filters.update(number=number, span=span, size=size, counted=counted)
    return made


# ------------------------------------------------------------------------------------------------- errors


def prepare(app: FastAPI) -> None:
    """The menu of the pages that there are, and errors in the form that the caller reads."""
    paths = {getattr(route, "path", "") for route in app.routes}
    app.state.menu = tuple(entry for entry in MENU if entry.path in paths)
    for kind in (GrusError, RequestValidationError, HTTPException, Refusal):
        app.add_exception_handler(kind, on_error)


async def on_error(request: Request, error: Exception) -> Response:
    """A page for people, what it always was for programs."""
    if not _browses(request):
        return await _for_programs(request, error)
    status, title, mistakes = _told(error)
    return page(request, "error.html", status=status, title=title, mistakes=mistakes)


def _browses(request: Request) -> bool:
    api = request.url.path.startswith("/v1/")
    return not api and request.method == "GET" and "text/html" in request.headers.get("accept", "")


async def _for_programs(request: Request, error: Exception) -> Response:
    if isinstance(error, GrusError):
        return await on_grus_error(request, error)
    if isinstance(error, RequestValidationError):
        return await on_validation(request, error)
    if isinstance(error, Refusal):
        return await on_refusal(request, error)
    return await on_http(request, error)


def _told(error: Exception) -> tuple[int, str, list[str]]:
    """Return status, sentence and every error."""
    if isinstance(error, RequestValidationError):
        error = BadInput(mistakes_of(error.errors(), whole="request"))
    if isinstance(error, BadInput):
        return error.status, "What you asked for cannot be read.", [str(one) for one in error.mistakes]
    if isinstance(error, GrusError):
        return error.status, str(error), []
    if isinstance(error, Refusal):
        return error.status, error.message, []
    assert isinstance(error, HTTPException)
    return error.status_code, "There is no such page." if error.status_code == 404 else error.detail, []
