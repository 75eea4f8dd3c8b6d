"""HTTP to the server: kept connections, errors rebuilt, lost answers asked for again.

A request whose connection broke may or may not have been carried out. Only requests that can be repeated
without harm are repeated: reads, and writes that are idempotent by nature or by an Idempotency-Key. A server
that refuses the very first connection is reported at once; one that answered before, or broke off, is
waited for (`patience`): it may be starting again, and only its answer tells what became of the request.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from grus.model import errors
from grus.model.errors import BadInput, GrusError, Mistake, Unreachable
from grus.sdk.places import Places, find_address, find_token, places

Params = Mapping[str, str | list[str]]
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Back-off between two tries, in seconds, doubling."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One server-sent event: its kind, its data as JSON text, and the id to go on from."""

    kind: str
    data: str
    id: str


class BrokenOff(Exception):
    """A large answer came in part; what came is good."""


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
        backend: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._env = os.environ if env is None else env
        self._places: Places = places(self._env)
        self._given = address
        self._address = _checked((address or find_address(self._env, self._places)).rstrip("/"))
        self._token = token if token is not None else find_token(self._env, self._places)
        self._timeout = timeout
        self._patience = patience
        self._pause = pause
        self._clock = clock
        self._met = False
        """Whether the server ever answered: one that did and is gone may be starting again."""
        host = urlsplit(self._address).hostname or ""
        self._http = httpx2.Client(
            transport=backend,
            timeout=timeout,
            # Proxies of the environment are for the world, not for this machine.
            trust_env=host not in LOOPBACK,
            verify=self._env.get("GRUS_CA") or True,
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
        )

    @property
    def address(self) -> str:
        return self._address

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
        """The answer of the server; raises the error that the server told of. `timeout` if not the usual."""
        sent = dict(headers or {})
        if content is not None:
            sent["Content-Type"] = "application/json"

        def once() -> httpx2.Response:
            url = self._address + path
            return self._http.request(
                method, url, params=params, content=content, headers=sent, timeout=timeout or self._timeout
            )

        response = self._persist(once, repeatable)
        if response.is_error:
            raise rebuilt(response)
        return response

    def live(
        self, path: str, *, params: Params | None = None, last: str = "", forever: bool = True
    ) -> Iterator[LiveEvent]:
        """Server-sent events; a broken stream is taken up again after the last id, so that none is missed.

        Ends when the server says so (event `end`); the event `reconnect` is followed without a word.
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
        """The bytes of a large answer, as they come. Raises BrokenOff if that is not all of them."""
        try:
            with self._http.stream("GET", self._address + path, params=params) as response:
                if response.is_error:
                    response.read()
                    raise rebuilt(response)
                self._met = True
                yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise BrokenOff(f"the download broke off ({error})") from error

    def _one_stream(self, path: str, params: Params | None, last: str) -> Iterator[LiveEvent]:
        headers = {"Last-Event-ID": last} if last else {}
        # Reads time out after some missed heartbeats.
        timeout = httpx2.Timeout(self._timeout, read=60.0)
        url = self._address + path
        with self._http.sse(url, params=params, headers=headers, timeout=timeout) as source:
            if source.response.is_error:
                source.response.read()
                raise rebuilt(source.response)
            for event in source:
                self._met = True
                if event.data:  # else it only sets the stream's own fields
                    yield LiveEvent(event.event, event.data, event.id)

    def wait(self) -> None:
        """Return when the server answers again. Raises Unreachable."""
        self._persist(self._alive, repeatable=True)

    def _alive(self) -> httpx2.Response:
        return self._http.get(self._address + "/healthz")

    def _persist(self, once: Callable[[], httpx2.Response], repeatable: bool) -> httpx2.Response:
        """Do it; do it again while the answer is lost, or while the server asks to come back later."""
        deadline = self._clock() + self._patience
        wait, in_doubt = FIRST_PAUSE, False
        while True:
            try:
                response = once()
            except httpx2.TransportError as error:
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
        """A restarted server may listen elsewhere; its server.json says where."""
        if self._given is None:
            try:
                self._address = find_address(self._env, self._places)
            except Unreachable:
                return

    def _unreachable(self, error: Exception, in_doubt: bool) -> Unreachable:
        what = str(error) or type(error).__name__
        known = "; whether the last request was carried out is not known" if in_doubt else ""
        hint = "Is it running? `grus up` starts it on its own machine; jobs are not affected."
        if "CERTIFICATE_VERIFY_FAILED" in what:
            hint = "Name the file with its certificate, or with the authority's, in GRUS_CA."
        return Unreachable(f"The server at {self._address} does not answer ({what}){known}. {hint}")


def _checked(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput([Mistake("server", "must be an address such as http://127.0.0.1:7600", address)])
    return address


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds after which the server wants to be asked again, if it does."""
    if response.status_code not in (429, 503):
        return None
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def rebuilt(response: httpx2.Response) -> GrusError:
    """The error that the server raised, as the same class here."""
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
    """The errors of the model: other parts have some of their own, which no server sends."""
    found = (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, GrusError))
    return {kind.code: kind for kind in found}
