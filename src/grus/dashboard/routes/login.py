"""Signing in with a token, and out. The token is looked at once; what the browser keeps holds none of it."""

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from grus.controlplane.security.user_tokens import digest_of
from grus.dashboard.page_rendering import page
from grus.model.errors import NotLoggedIn
from grus.server.http.auth_middleware import SIGN_IN, SIGN_OUT, cookie_in
from grus.server.http.dependencies import WhoExactly
from grus.server.http.errors import Refusal
from grus.server.http.one_time_codes import Codes
from grus.server.http.session_cookies import COOKIE, LASTS, Sessions, same

router = APIRouter(include_in_schema=False)

FIRST_PAGE = "/"


@router.get(SIGN_IN)
async def ask(request: Request, next: str = FIRST_PAGE, fresh: bool = False) -> Response:
    """The form; who is signed in already goes where they wanted to, unless they want to begin afresh."""
    if not fresh and _is_signed_in(request):
        return RedirectResponse(own_path(next), 303)
    return page(request, "sign_in.html", next=own_path(next), trouble="")


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    given = _form(await request.body())
    wanted = own_path(given.get("next", FIRST_PAGE))
    sessions: Sessions = request.app.state.sessions
    try:
        cookie = sessions.cookie(_digest(request, given))
    except NotLoggedIn as error:
        return page(request, "sign_in.html", status=401, next=wanted, trouble=_trouble(given, error))
    answer = RedirectResponse(wanted, 303)
    answer.set_cookie(
        COOKIE, cookie, max_age=int(LASTS), httponly=True, samesite="strict", secure=_is_secure(request)
    )
    return answer


@router.post(f"{SIGN_IN}/codes", status_code=201)
async def new_code(request: Request, caller: WhoExactly) -> Response:
    """A code that opens a session like the caller's, once and soon."""
    codes: Codes = request.app.state.codes
    return JSONResponse({"code": codes.make(caller.token)}, 201)


@router.post(SIGN_OUT)
async def sign_out(request: Request, caller: WhoExactly) -> Response:
    given = _form(await request.body())
    if not same(given.get("csrf", ""), caller.form):
        raise Refusal(403, "wrong_form", "This form is not from here. Load the page again.")
    answer = RedirectResponse(SIGN_IN, 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_secure(request))
    return answer


def own_path(wanted: str) -> str:
    """Return the path to open after signing in: one of this server, never one that a browser reads as another
    site's.
    """
    own = wanted.startswith("/") and not wanted.startswith(("//", "/\\", SIGN_IN))
    return wanted if own and wanted.isprintable() else FIRST_PAGE


def _is_signed_in(request: Request) -> bool:
    sessions: Sessions = request.app.state.sessions
    try:
        sessions.read(cookie_in(request.headers))
    except NotLoggedIn:
        return False
    return True


def _form(body: bytes) -> dict[str, str]:
    """The fields of a plain form; of one that is given twice, the last."""
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _digest(request: Request, given: dict[str, str]) -> str:
    """Return the digest of the token, which was given itself or by a code."""
    codes: Codes = request.app.state.codes
    return codes.spend(given["code"]) if "code" in given else digest_of(given.get("token", "").strip())


def _trouble(given: dict[str, str], error: NotLoggedIn) -> str:
    if "code" in given or "expired" in str(error):
        return str(error)
    if not given.get("token", "").strip():
        return "Paste a token first."
    return "This token is not known here. Was all of it copied? An administrator can make a new one."


def _is_secure(request: Request) -> bool:
    """Return whether the browser came by TLS.

    A proxy in front may have ended TLS, but the Origin shows it.
    """
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
