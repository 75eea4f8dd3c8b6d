"""Webhooks: one signed POST a message. Follows no redirect, reads little of the answer, waits seconds."""

import time
from urllib.parse import urlsplit

import httpx2

from grus import __version__
from grus.controlplane.notifications import signing
from grus.controlplane.notifications.messages import Notification, body_of
from grus.controlplane.notifications.sender import DeliveryFailed
from grus.telemetry.exporter_scrape import LOOPBACK

TIMEOUT = 10.0
"""Seconds for the connection, and between two parts of an answer."""
MOST_ANSWER = 4096
"""Bytes of an answer that are read, so that its connection can be used again; their content is ignored."""


class WebhookSender:
    """See `Sender`. The address and the key appear in no error: either may be what protects a receiver."""

    channel = "webhook"

    def __init__(self, name: str, url: str, key: bytes, timeout: float = TIMEOUT) -> None:
        self.name = name
        parts = urlsplit(url)
        self.target = parts.netloc.rpartition("@")[2]
        self._url = url
        self._key = key
        self._timeout = timeout
        # Proxies of the environment are for other machines.
        self._http = httpx2.Client(
            timeout=timeout, follow_redirects=False, trust_env=(parts.hostname or "") not in LOOPBACK
        )

    def send(self, message: Notification, now: float) -> None:
        body = body_of(message)
        headers = {
            **signing.headers(self._key, message.id, now, body),
            "content-type": "application/json",
            "user-agent": f"grus/{__version__}",
        }
        try:
            with self._http.stream("POST", self._url, content=body, headers=headers) as answer:
                status = answer.status_code
                self._drain(answer)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, RuntimeError, OSError) as error:
            # Without its text, which may hold the address; RuntimeError: the client was closed meanwhile.
            raise DeliveryFailed(_reason(error)) from None
        if not 200 <= status < 300:
            hint = "; redirects are not followed: configure the final address" if 300 <= status < 400 else ""
            raise DeliveryFailed(f"HTTP {status}{hint}")

    def _drain(self, answer: httpx2.Response) -> None:
        deadline, read = time.monotonic() + self._timeout, 0
        try:
            for piece in answer.iter_raw():
                read += len(piece)
                if read > MOST_ANSWER or time.monotonic() > deadline:
                    return
        except httpx2.HTTPError:
            return  # the status has been received, and counts

    def close(self) -> None:
        self._http.close()


def _reason(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(error).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
