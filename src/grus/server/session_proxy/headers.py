"""Headers of a request and of an answer that pass between a browser and a session. Pure.

Towards the session: nothing that would let it act for the visitor elsewhere. Neither the visitor's token nor
any cookie of this host is forwarded, except those that the session itself has set. Towards the browser:
nothing that reaches beyond the session's own paths.
"""

from collections.abc import Iterable, Iterator

from starlette.requests import cookie_parser

from grus.model.identifiers import JobId
from grus.server.session_proxy.session_access import NAME, base

Raw = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
"""Headers of one connection, not of a message (RFC 9110, 7.6.1)."""
NOT_ON = HOP_BY_HOP | {b"host", b"origin", b"referer", b"cookie", b"authorization", b"forwarded", b"expect"}
NOT_BACK = HOP_BY_HOP | {
    *(b"set-cookie", b"server", b"date", b"location", b"alt-svc", b"strict-transport-security"),
    *(b"clear-site-data", b"service-worker-allowed", b"www-authenticate", b"refresh"),
}
HANDSHAKE = b"sec-websocket-"
MOST_COOKIES = 64


def towards(headers: Iterable[tuple[bytes, bytes]], address: str, secret: str, known: set[str]) -> Raw:
    """A request's headers for the session at that address; of its cookies only those `known` to be its."""
    given = list(headers)
    kept = [
        (name, value)
        for name, value in given
        if name not in NOT_ON and not name.startswith((b"x-forwarded-", HANDSHAKE))
    ]
    kept.append((b"host", address.encode()))
    kept.append((b"authorization", f"token {secret}".encode()))
    if any(name == b"origin" for name, _ in given):
        kept.append((b"origin", f"http://{address}".encode()))
    if cookies := own_cookies(given, known):
        kept.append((b"cookie", cookies.encode("latin-1")))
    return kept


def own_cookies(headers: Iterable[tuple[bytes, bytes]], known: set[str]) -> str:
    sent = cookie_parser(cookies_in(headers))
    return "; ".join(f"{name}={value}" for name, value in sent.items() if name in known)


def cookies_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")


def back(headers: Iterable[tuple[bytes, bytes]], job: JobId, address: str, origin: str) -> Raw:
    """An answer's headers for the browser."""
    given = [(name.lower(), value) for name, value in headers]
    kept = [
        (name, value)
        for name, value in given
        if name not in NOT_BACK and not name.startswith(b"access-control-")
    ]
    kept += [(b"set-cookie", cookie.encode("latin-1")) for _, cookie in set_cookies(given, job)]
    kept += [(name, _here(value, address)) for name, value in given if name == b"location"]
    return kept + own(origin)


def own(origin: str) -> Raw:
    """Return the headers of every answer under a session's origin."""
    live = origin.replace("http", "ws", 1)
    policy = (
        f"connect-src 'self' {live} https: data: blob:; form-action 'self'; frame-ancestors 'self'; "
        "base-uri 'self'; object-src 'none'"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]


def set_cookies(headers: Iterable[tuple[bytes, bytes]], job: JobId) -> Iterator[tuple[str, str]]:
    """Name and text of the cookies that the session sets, kept to its own paths; never one of Grus."""
    for name, value in headers:
        if name != b"set-cookie":
            continue
        pair, *attributes = value.decode("latin-1").split(";")
        key = pair.partition("=")[0].strip()
        if not key or key.lower().startswith(("grus", NAME, "__host-", "__secure-")):
            continue
        lower = [one.strip().lower() for one in attributes]
        kept = [one.strip() for one in attributes if one.strip().lower().startswith(("max-age", "expires"))]
        kept += ["HttpOnly"] if "httponly" in lower else []
        yield key, "; ".join([pair.strip(), f"Path={base(job)}", "SameSite=Strict", *kept])


def _here(location: bytes, address: str) -> bytes:
    """Return the target of a redirect, without the address that only the server can reach."""
    return location.removeprefix(f"http://{address}".encode()) or b"/"
