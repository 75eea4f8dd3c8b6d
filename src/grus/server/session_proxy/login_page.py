"""Letting a browser into a session: a page that hands over the code behind its #, and the cookie for it.

The code is in no address that a server, a log or another site sees. The page is not the session's: its script
is the only one that may run there.
"""

import hashlib
from base64 import b64encode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import JobId
from grus.server.http.errors import Refusal, of_grus_error
from grus.server.session_proxy.cookie_auth import DevGate
from grus.server.session_proxy.session_access import LASTS, NAME, base

OPEN = "open"
LONGEST_CODE = 200
SCRIPT = """
const code = new URLSearchParams(location.hash.slice(1)).get("code") || "";
const say = (text) => { document.getElementById("state").textContent = text; };
history.replaceState(null, "", location.pathname);
fetch(location.pathname, {method: "POST", body: code, headers: {"Content-Type": "text/plain"}})
  .then(async (answer) => {
    const told = await answer.json();
    if (answer.ok) location.replace(told.next); else say(told.error.message);
  })
  .catch(() => say("The server did not answer. Load the page again."));
"""
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Grus: {title}</title>
<main><h1>{title}</h1><p id="state" role="status">{text}</p></main>
{script}</html>
"""
HASH = b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; script-src 'sha256-{HASH}'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def opening_page() -> Response:
    """The same for everybody."""
    script = f"<script>{SCRIPT}</script>"
    return HTMLResponse(PAGE.format(title="Opening the session", text="…", script=script), headers=HEADERS)


def shut_out(request: Request, error: NotLoggedIn) -> Response:
    """Return the answer to a visitor without access: a page for people, the usual form for programs."""
    if "text/html" not in request.headers.get("accept", ""):
        return of_grus_error(error)
    page = PAGE.format(title="This session is not open here", text=str(error), script="")
    return HTMLResponse(page, 401, HEADERS)


async def entered(request: Request, gate: DevGate, job: JobId) -> Response:
    """Spend the code. Raises Refusal and NotLoggedIn."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > LONGEST_CODE:
        raise Refusal(413, "too_large", f"A code has at most {LONGEST_CODE} bytes.")
    cookie = gate.enter(job, (await request.body()).decode("ascii", "replace"))
    answer = JSONResponse({"next": f"{base(job)}lab"}, headers=HEADERS)
    answer.set_cookie(
        f"{NAME}{job}",
        cookie,
        max_age=int(LASTS),
        path=base(job),
        httponly=True,
        samesite="strict",
        secure=gate.origin(job).startswith("https:"),
    )
    return answer
