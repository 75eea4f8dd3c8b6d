"""HTTP transport: kept connections, errors rebuilt as exceptions, requests with lost answers repeated.

A request whose connection broke may or may not have been carried out. Only requests that can be repeated
without harm are repeated: reads, and writes that are idempotent by nature or by an Idempotency-Key. A server
that refuses the very first connection is reported at once. The client waits (`patience`) for a server that
answered before, or broke off: it may be restarting, and only its answer shows what became of the request.
"""

import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from grus.model import errors
from grus.model.errors import BadInput, GrusError, Mistake, NotLoggedIn, Unreachable
from grus.sdk.connection_errors import (
    advice,
    is_loopback,
    not_logged_in,
    require_address,
    require_encrypted,
    require_sendable,
)
from grus.sdk.contexts import Context, chosen_context, trust
from grus.sdk.state_paths import FoundToken, GrusPaths, Running, find_address, find_token, places, running
from grus.sdk.tls_trust import pin, pinned

Params = Mapping[str, str | list[str]]
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""First pause between two tries, in seconds, doubling."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Server-sent event: its kind, its data as JSON text, and the id to continue from."""

    kind: str
    data: str
    id: str


class BrokenOff(Exception):
    """A large answer was received only in part; the received part is valid."""


class Transport:
    """One server, one token; made for use by one or several threads, closed by its owner."""

    def __init__(
        self,
        address: str | None,
        token: str | None,
        *,
        timeout: float,
        patience: float,
        env: Mapping[str, str] | None = None,
        context: Context | None = None,
        backend: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect. `context` is a login to use in place of the one that the environment names."""
        self._env = os.environ if env is None else env
        self._places: GrusPaths = places(self._env)
        login = context
        if address is None and login is None:
            login = chosen_context(self._env, self._places)
        self._given = address if login is None else login.server
        self._source = _source(self._env, address, login)
        """Variable, file or command that names the address, for errors."""
        self._address = require_address((self._given or find_address(self._env, self._places)).rstrip("/"))
        self._token = require_sendable(self._find_token(token, login, given=context is not None)).secret
        ca = {} if context is not None and context.ca else self._env
        self._ca = _certificates(ca, login)
        """Certificates that the server's is checked against, for errors; "" for those of the system."""
        self._timeout = timeout
        self._patience = patience
        self._pause = pause
        self._clock = clock
        self._met = False
        """True if the server has ever answered: one that did and is gone may be restarting."""
        here = self._server_here()
        self._pins = pinned(here.certificate) if here is not None else None
        """For the server of this machine: trust in the certificate that it has announced."""
        self._base = here.reach if here is not None else self._address
        """Address that requests go to."""
        # A stored login to such an address was accepted when it was made.
        if self._token and here is None and login is None:
            require_encrypted(self._address, self._env)
        host = urlsplit(self._address).hostname or ""
        self._http = httpx2.Client(
            transport=backend,
            timeout=timeout,
            # Proxies of the environment are for other machines, not for this one.
            trust_env=here is None and not is_loopback(host),
            verify=self._pins or trust(ca, login),
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
        )

    def _find_token(self, token: str | None, login: Context | None, *, given: bool) -> FoundToken:
        """Return the token. GRUS_TOKEN has precedence over a stored login, as over a token file."""
        if token is not None:
            return FoundToken(token, "the argument `token`")
        if login is None:
            return find_token(self._env, self._places)
        if not given and (named := self._env.get("GRUS_TOKEN", "").strip()):
            return FoundToken(named, "GRUS_TOKEN")
        return FoundToken(login.token, f"the login to {login.server}")

    @property
    def address(self) -> str:
        """Return the server's address as shown to users."""
        return self._address

    def _server_here(self) -> Running | None:
        """Return the server that runs on this machine's state, if it has the requested address."""
        server = running(self._places)
        return server if server is not None and server.address == self._address else None

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        timeout: float | None = None,
    ) -> httpx2.Response:
        """Return the answer of the server; raise the error that the server reported. `timeout` if not the
        usual.
        """
        sent = dict(headers or {})
        if content is not None:
            sent["Content-Type"] = "application/json"

        def once() -> httpx2.Response:
            url = self._base + path
            return self._http.request(
                method, url, params=params, content=content, headers=sent, timeout=timeout or self._timeout
            )

        response = self._persist(once, repeatable)
        if response.is_error:
            raise self._refusal(response)
        return response

    def live(
        self, path: str, *, params: Params | None = None, last: str = "", forever: bool = True
    ) -> Iterator[LiveEvent]:
        """Yield server-sent events; a broken stream is resumed after the last id, so that none is missed.

        Ends when the server says so (event `end`); the event `reconnect` is followed silently.
        """
        while True:
            try:
                for event in self._one_stream(path, params, last):
                    last = event.id or last
                    if event.kind == "end":
                        return
                    if event.kind == "reconnect":
                        break
                    if event.kind == "error":
                        raise _from_body(json.loads(event.data))
                    yield event
            except httpx2.TransportError as error:
                if not forever:
                    raise self._unreachable(error, in_doubt=False) from error
            if not forever:
                return
            self._persist(self._alive, repeatable=True)

    def stream(self, path: str, *, params: Params | None = None) -> Iterator[bytes]:
        """Yield the bytes of a large answer, as they come. Raises BrokenOff if the answer is incomplete."""
        try:
            with self._http.stream("GET", self._base + path, params=params) as response:
                if response.is_error:
                    response.read()
                    raise self._refusal(response)
                self._met = True
                yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise BrokenOff(f"the download broke off ({error})") from error

    def _one_stream(self, path: str, params: Params | None, last: str) -> Iterator[LiveEvent]:
        headers = {"Last-Event-ID": last} if last else {}
        # Reads time out after some missed heartbeats.
        timeout = httpx2.Timeout(self._timeout, read=60.0)
        url = self._base + path
        with self._http.sse(url, params=params, headers=headers, timeout=timeout) as source:
            if source.response.is_error:
                source.response.read()
                raise self._refusal(source.response)
            for event in source:
                self._met = True
                if event.data:  # else it only sets the stream's own fields
                    yield LiveEvent(event.event, event.data, event.id)

    def _refusal(self, response: httpx2.Response) -> GrusError:
        """Return the server's error; without a token, one that says how to set it."""
        error = rebuilt(response)
        if isinstance(error, NotLoggedIn) and not self._token:
            return not_logged_in(self._address, self._env.get("GRUS_TOKEN"), self._places)
        return error

    def wait(self) -> None:
        """Wait until the server answers again. Raises Unreachable."""
        self._persist(self._alive, repeatable=True)

    def _alive(self) -> httpx2.Response:
        return self._http.get(self._base + "/healthz")

    def _persist(self, once: Callable[[], httpx2.Response], repeatable: bool) -> httpx2.Response:
        """Send the request; repeat it while the answer is lost, or while the server asks to try again
        later.
        """
        deadline = self._clock() + self._patience
        wait, in_doubt = FIRST_PAUSE, False
        while True:
            try:
                response = once()
            except httpx2.TransportError as error:
                if not self._met and (wrong := self._wrong_scheme(error)):
                    raise Unreachable(wrong) from error
                in_doubt = in_doubt or not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                hopeless = (in_doubt and not repeatable) or not (in_doubt or self._met)
                if hopeless or self._clock() + wait > deadline:
                    raise self._unreachable(error, in_doubt) from error
                self._find_again()
            else:
                self._met = True
                after = _retry_after(response)
                if after is None or self._clock() + after > deadline:
                    return response
                wait = max(wait, after)
            self._pause(wait)
            wait = min(wait * 2, LONGEST_PAUSE)

    def _find_again(self) -> None:
        """Find a restarted server, which may listen elsewhere; its server.json has the address."""
        if self._given is None:
            try:
                self._address = self._base = find_address(self._env, self._places)
            except Unreachable:
                return
            if (here := self._server_here()) is not None and self._pins is not None:
                pin(self._pins, here.certificate)
                self._base = here.reach

    def _wrong_scheme(self, error: Exception) -> str:
        """Return a sentence for a server that uses TLS although HTTP was requested, or the other way; "" for
        others.
        """
        plain = self._base.startswith("http://")
        if plain and isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
            if not speaks_tls(self._base, self._timeout):
                return ""
            right = self._address.replace("http://", "https://", 1)
            return f"The server at {self._address} speaks TLS. Ask for {right} instead."
        if not plain and "WRONG_VERSION_NUMBER" in str(error):
            right = self._address.replace("https://", "http://", 1)
            return f"The server at {self._address} does not speak TLS. Ask for {right} instead."
        return ""

    def _unreachable(self, error: Exception, in_doubt: bool) -> Unreachable:
        what = str(error) or type(error).__name__
        known = "; whether the last request was carried out is not known" if in_doubt else ""
        hint = advice(what, self._address, self._source, self._ca)
        return Unreachable(f"The server at {self._address} does not answer ({what}){known}. {hint}")


def speaks_tls(address: str, timeout: float) -> bool:
    """Return True if a server there completes a TLS handshake. Nothing is sent, so any certificate is
    accepted.
    """
    url = urlsplit(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((url.hostname or "", url.port or 80), timeout=timeout) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False


def _source(env: Mapping[str, str], address: str | None, login: Context | None) -> str:
    """Name what the address comes from, for errors."""
    if address is not None:
        return f"the address {address}"
    if login is not None:
        return f"`grus login` ({login.server})"
    return "GRUS_SERVER" if env.get("GRUS_SERVER") else "[client] server of config.toml"


def _certificates(env: Mapping[str, str], login: Context | None) -> str:
    """Name the certificates that `trust` takes; "" for those of the system."""
    if path := env.get("GRUS_CA"):
        return f"{path} (GRUS_CA)"
    return f"those kept by `grus login {login.server} --ca`" if login is not None and login.ca else ""


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds after which the server allows another request, if it names them."""
    if response.status_code not in (429, 503):
        return None
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def rebuilt(response: httpx2.Response) -> GrusError:
    """Return the error that the server raised, as the same class here."""
    try:
        return _from_body(response.json()["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return GrusError(f"The server answered {response.status_code} without saying why.")


def _from_body(body: Mapping[str, Any]) -> GrusError:
    code, message = str(body["code"]), str(body["message"])
    if code == BadInput.code:
        mistakes = [_mistake(found) for found in body.get("mistakes") or ()]
        return BadInput(mistakes or [Mistake("request", message)])
    kind = _by_code().get(code)
    return kind(message) if kind is not None else GrusError(f"{message} ({code})")


def _mistake(found: Mapping[str, object]) -> Mistake:
    line = found.get("line")
    return Mistake(
        field=str(found.get("field", "")),
        rule=str(found.get("rule", "")),
        value=str(found.get("value") or ""),
        line=line if isinstance(line, int) else None,
    )


def _by_code() -> dict[str, type[GrusError]]:
    """Return the errors of the model by code: other parts have some of their own, which no server sends."""
    found = (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, GrusError))
    return {kind.code: kind for kind in found}
