"""Forwarding of requests to served models: to one of their replicas, and to another when that one fails.

A prediction changes nothing, so it may be requested twice. A replica that cannot be reached, or reports that
it is busy, costs nothing: the next one is tried. A replica that breaks off in the middle may have died of the
request itself, so that is tried only once more. While no replica is ready the request waits a little, because
a dead one is being replaced. Lives on the event loop, for the life of the app.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx2
from starlette.responses import Response

from grus.controlplane.workers.endpoints import Endpoint
from grus.model.texts.plural_words import counted
from grus.server.http.errors import Refusal

LARGEST_OUTPUTS = 64 << 20
"""Bytes of an answer."""
LONGEST = 60.0
"""Seconds for a request, in all."""
PATIENCE = 15.0
"""Seconds to wait for a replica to become ready."""
MOST_BROKEN = 2
"""Replicas that may break off under the same request before it is given up: it may be what kills them."""
MOST_UNDER_WAY = 512
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds between two looks for a replica, doubling."""
KEPT = 20.0
"""Seconds for which an idle connection is kept; a replica keeps it for longer."""
HANDED_ON = frozenset({200, 400, 404, 413, 415, 422})
"""Answers of a replica that are the caller's business."""


class ServedModelStatus(NamedTuple):
    """A served model as it is now."""

    ready: Sequence[Endpoint]
    why: str
    """The reason for its state, shown when no replica is ready."""


Look = Callable[[], Awaitable[ServedModelStatus]]


@dataclass(slots=True)
class _ForwardedRequest:
    """One request on its way."""

    body: bytes
    deadline: float
    waits_until: float
    failed: set[str] = field(default_factory=set)
    """Addresses of replicas that will not answer it."""
    broken: int = 0
    pause: float = FIRST_PAUSE


class Forwarder:
    """Chooses replicas by who has least to do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._http = httpx2.AsyncClient(
            trust_env=False,  # replicas are on this machine
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=128, keepalive_expiry=KEPT),
            follow_redirects=False,
        )
        self._busy: Counter[str] = Counter()
        """Requests under way by address."""
        self._last: dict[str, float] = {}
        """Time of the last request to each address: among equals the one that has rested longest is next."""

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, look: Look, body: bytes) -> Response:
        """The answer of one of those that are ready. Raises Refusal."""
        if self._busy.total() >= MOST_UNDER_WAY:
            raise Refusal(503, "busy", "Too many requests to models are under way.", retry_after=1.0)
        now = self._clock()
        asking = _ForwardedRequest(body, now + LONGEST, now + PATIENCE)
        while True:
            standing = await look()
            there = [one for one in standing.ready if one.address not in asking.failed]
            if not there:
                await self._wait(asking, standing.why)
            elif (answer := await self._try(asking, self._chosen(there))) is not None:
                return answer

    def _chosen(self, there: Sequence[Endpoint]) -> Endpoint:
        return min(there, key=lambda one: (self._busy[one.address], self._last.get(one.address, 0.0)))

    async def _wait(self, asking: _ForwardedRequest, why: str) -> None:
        if self._clock() >= asking.waits_until:
            message = f"No replica of this model is ready: {why}. Try again later."
            raise Refusal(503, "not_ready", message, retry_after=1.0)
        await asyncio.sleep(asking.pause)
        asking.pause = min(2 * asking.pause, LONGEST_PAUSE)
        if not asking.broken:
            asking.failed.clear()  # a replica that was busy, or about to listen, may be ready by now

    async def _try(self, asking: _ForwardedRequest, chosen: Endpoint) -> Response | None:
        """Its answer; None if another should be asked."""
        address = chosen.address
        self._busy[address] += 1
        self._last[address] = self._clock()
        try:
            async with asyncio.timeout(max(0.0, asking.deadline - self._clock())):
                status, said = await self._post(chosen, asking.body)
        except TimeoutError:
            message = f"The model did not answer within {LONGEST:g} s; send fewer samples at once."
            raise Refusal(504, "too_slow", message) from None
        except httpx2.ConnectError:
            asking.failed.add(address)
            return None
        except httpx2.TransportError:
            self._note_broken(asking, address)
            return None
        finally:
            self._let_go(address)
        if said is None:
            message = f"The model answered with more than {LARGEST_OUTPUTS} bytes: ask for less."
            raise Refusal(502, "too_large", message)
        if status in HANDED_ON:
            return Response(said, status, media_type="application/json")
        if status >= 500 and status != 503:
            raise Refusal(502, "model_failed", f"The model's program answered {status}; see its log.")
        asking.failed.add(address)  # busy, or not the intended one
        return None

    def _note_broken(self, asking: _ForwardedRequest, address: str) -> None:
        asking.failed.add(address)
        asking.broken += 1
        if asking.broken >= MOST_BROKEN:
            message = (
                f"{counted(asking.broken, 'replica')} broke off under this request; it may be what ends them."
            )
            raise Refusal(502, "broke_off", message)

    def _let_go(self, address: str) -> None:
        self._busy[address] -= 1
        if not self._busy[address]:
            del self._busy[address]
        if len(self._last) > 4 * MOST_UNDER_WAY:  # replicas come and go: only the newest matter
            newest = sorted(self._last, key=self._last.__getitem__)[-MOST_UNDER_WAY:]
            self._last = {one: self._last[one] for one in newest}

    async def _post(self, chosen: Endpoint, body: bytes) -> tuple[int, bytes | None]:
        """Its status and its answer; None for one that is too large."""
        headers = {"Authorization": f"token {chosen.secret}", "Content-Type": "application/json"}
        url = f"http://{chosen.address}/predict"
        timeout = httpx2.Timeout(None, connect=5.0)
        async with self._http.stream("POST", url, content=body, headers=headers, timeout=timeout) as answer:
            parts, size = [], 0
            async for part in answer.aiter_bytes():
                size += len(part)
                if size > LARGEST_OUTPUTS:
                    return answer.status_code, None
                parts.append(part)
            return answer.status_code, b"".join(parts)
