"""Errors of a client before and without an answer: a bad token or address, an unknown host, a certificate.

Each says what failed, why, and which variable, file or command changes it.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from grus.model.errors import BadInput, Mistake, NotLoggedIn
from grus.sdk.state_paths import FoundToken, GrusPaths

INSECURE_HTTP = "GRUS_INSECURE_HTTP"
"""Variable that allows to send a token to another machine without encryption."""
UNKNOWN_HOST = (
    "Name or service not known",
    "No address associated with hostname",
    "Temporary failure in name resolution",
    "nodename nor servname provided",
)
"""Texts of the resolver for a host name that it cannot resolve."""
IS_IT_RUNNING = "Is it running? `grus up` starts it on its own machine; jobs are not affected."


def require_sendable(token: FoundToken) -> FoundToken:
    """Return the token. Raises NotLoggedIn for one that cannot be sent, as a header is printable ASCII."""
    wrong = next((c for c in token.secret if not ("!" <= c <= "~")), None)
    if wrong is None:
        return token
    raise NotLoggedIn(
        f"The token of {token.source} is not a whole token: it contains {_character(wrong)}. "
        f"Copy all of the line that `grus token new` printed into {token.source}, or ask an administrator "
        "for a new token."
    )


def _character(found: str) -> str:
    """Name the character; a token is never repeated, so only this one is shown."""
    shown = repr(found) if found.isprintable() and found != " " else ""
    return " ".join(word for word in (shown, f"(U+{ord(found):04X})") if word)


def not_logged_in(address: str, env_token: str | None, at: GrusPaths) -> NotLoggedIn:
    """Error of a server that needs a token, for a request that had none."""
    variable = "GRUS_TOKEN is not set" if env_token is None else "GRUS_TOKEN is empty"
    return NotLoggedIn(
        f"The server at {address} needs a token, and there is none: {variable}, and {at.token_file} has no "
        f"token. Run `grus login {address}`, or set GRUS_TOKEN to a token; administrators make one with "
        "`grus token new USER`."
    )


def require_address(address: str) -> str:
    """Return the address. Raises BadInput, with the likely address, if it is none."""
    parts = urlsplit(address)
    if parts.scheme in ("http", "https") and parts.hostname:
        return address
    rule = "must be an address such as http://127.0.0.1:7600"
    if likely := _with_scheme(address):
        rule = f"{rule}; did you mean {likely}?"
    raise BadInput([Mistake("server", rule, address)])


def _with_scheme(address: str) -> str:
    """Return `gpu.lab:7600` with the scheme that it lacks; "" for another kind of error."""
    try:
        parts = urlsplit(f"//{address}")
        if "/" in address or not parts.hostname or parts.port is None:
            return ""
    except ValueError:
        return ""
    return f"{'http' if is_loopback(parts.hostname) else 'https'}://{address}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_encrypted(address: str, env: Mapping[str, str]) -> None:
    """Raise BadInput for an address to which a token would go readable by every machine on the way."""
    parts = urlsplit(address)
    if parts.scheme != "http" or is_loopback(parts.hostname or "") or env.get(INSECURE_HTTP) == "1":
        return
    right = address.replace("http://", "https://", 1)
    rule = (
        f"is not encrypted, so others could read the token on its way; ask for {right}, or set "
        f"{INSECURE_HTTP}=1 for a server that runs with --insecure-http"
    )
    raise BadInput([Mistake("server", rule, address)])


def advice(what: str, address: str, source: str, ca: str) -> str:
    """Return the sentence to add to a failed connection. `source` names what has the address, `ca` the
    certificates in use.
    """
    if any(text in what for text in UNKNOWN_HOST):
        return f"This machine knows no host {urlsplit(address).hostname}: check the name in {source}."
    if "CERTIFICATE_VERIFY_FAILED" not in what:
        return IS_IT_RUNNING
    if any(text in what for text in ("not valid for", "doesn't match", "mismatch")):
        return "Ask for it by a name of its certificate."
    if ca:
        return (
            f"Its certificate is not one of {ca}, and not signed by one: put the server's certificate, or "
            "its authority's, there."
        )
    return "Name the file with its certificate, or its authority's (`grus login --ca FILE`, GRUS_CA)."
