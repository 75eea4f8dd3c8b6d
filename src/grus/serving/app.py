"""HTTP interface of a replica: `POST /predict`, and `GET /healthz` for health checks. Plain ASGI.

    {"inputs": [sample, …]} → {"outputs": [the model's output for each, …]}

Requests without the replica's secret are refused: other users' programs run on the same machine. An error has
the form of the server's own errors, so that it can be passed on unchanged.
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from grus.model.errors import BadInput, Mistake
from grus.serving.dynamic_batching import Batcher, Busy
from grus.serving.json_tensors import NotFinite, plain, request, tensor
from grus.serving.model_loader import Served

log = logging.getLogger(__name__)

LARGEST_BODY = 16 << 20
"""Bytes; the server's own limit is the same."""
COME_AGAIN = 1.0
"""Seconds after which a refused client may retry."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Refused(Exception):
    """An answer that is no outputs."""

    def __init__(self, status: int, code: str, message: str, mistakes: Sequence[Mistake] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.mistakes = status, code, mistakes


class App:
    """Requests of one replica. `figures` has its metrics so far."""

    def __init__(self, model: Served, secret: str, most: int, lose: Callable[[BaseException], None]) -> None:
        """Set up the app; `lose` receives every error of the model: some end the process."""
        self._model = model
        self._proof = f"token {secret}".encode()
        self._lose = lose
        self._batcher = None if model.forward is None else Batcher(model.forward, most)
        self._own = ThreadPoolExecutor(1, "model")
        """Executor of the user's function, if there is one: one request after the other."""
        self.requests = 0
        self.failed = 0
        self.seconds = 0.0
        """Spent on requests that were answered, in all."""
        self.used_at: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, answer = 200, await self._answer(scope, receive)
        except Refused as refused:
            status, answer = refused.status, _error(refused)
        await _send(send, status, answer)

    def close(self) -> None:
        """Finish the requests that have started."""
        self._own.shutdown()
        if self._batcher is not None:
            self._batcher.close()

    @property
    def figures(self) -> dict[str, float]:
        answered = self.requests - self.failed
        found = {"requests": float(self.requests), "failed": float(self.failed)}
        return found | ({"seconds": self.seconds / answered} if answered else {})

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._proof):
            raise Refused(401, "not_logged_in", "This is not for anybody but the server of the pool.")
        place = (scope["method"], scope["path"])
        if place == ("GET", "/healthz"):
            return b'{"ready": true}'
        if place != ("POST", "/predict"):
            raise Refused(404, "not_found", "There are POST /predict and GET /healthz here.")
        body = await _body(receive)
        began, self.used_at = time.monotonic(), time.time()
        self.requests += 1
        try:
            found = await _unless_gone(self._outputs(body), receive)
        except BaseException:
            self.failed += 1
            raise
        self.seconds += time.monotonic() - began
        return found

    async def _outputs(self, body: bytes) -> bytes:
        try:
            return await asyncio.to_thread(_encoded, await self._said(body))
        except BadInput as error:
            raise Refused(422, error.code, str(error), error.mistakes) from None
        except Busy:
            raise Refused(503, "busy", "Too many requests wait here already; come again.") from None
        except NotFinite:
            message = "The model gave numbers that are not finite (NaN or infinite), which JSON cannot carry."
            raise Refused(422, "not_finite", message) from None
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the user's model may raise anything: the client gets the error
            self._lose(error)
            raise _of_model(error) from error

    async def _said(self, body: bytes) -> Any:
        """Return the output of the model, or of the user's function."""
        if self._batcher is None:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._own, self._predicted, body)
        samples = await asyncio.to_thread(self._samples, body)
        return await asyncio.wrap_future(self._batcher.submit(samples))

    def _predicted(self, body: bytes) -> Any:
        assert self._model.predict is not None
        return self._model.predict(request(body)[0])

    def _samples(self, body: bytes) -> torch.Tensor:
        inputs, dtype = request(body)
        return tensor(inputs, self._model.form, dtype)


def _of_model(error: Exception) -> Refused:
    """Turn any exception of the user's model, mostly for inputs that it cannot take, into a refusal."""
    first = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
    log.warning("a request failed: %s", first)
    if isinstance(error, torch.OutOfMemoryError):
        return Refused(413, "too_large", f"The memory of the GPU does not suffice: send less. {first}")
    mistake = Mistake("inputs", f"are not what this model takes, or it failed: {first}")
    return Refused(422, BadInput.code, str(mistake), [mistake])


def _encoded(said: Any) -> bytes:
    return json.dumps({"outputs": plain(said)}, allow_nan=False).encode()


def _error(refused: Refused) -> bytes:
    mistakes = [{"field": one.field, "rule": one.rule, "value": one.value} for one in refused.mistakes]
    told = {"code": refused.code, "message": str(refused), "mistakes": mistakes}
    return json.dumps({"error": told}).encode()


async def _unless_gone(answering: Coroutine[Any, Any, bytes], receive: Receive) -> bytes:
    """Return the answer; stop computing it if the client disconnects."""
    task, leaving = asyncio.ensure_future(answering), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refused(400, "gone", "The request broke off.")
        return task.result()
    finally:
        task.cancel()
        leaving.cancel()


async def _body(receive: Receive) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "gone", "The request broke off.")
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            raise Refused(413, "too_large", f"A body may have at most {LARGEST_BODY} bytes.")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers.append((b"retry-after", str(COME_AGAIN).encode()))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
