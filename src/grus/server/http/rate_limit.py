"""Rate limit of one person's requests: a bucket that fills steadily and is emptied by requests.

Generous on purpose: it keeps one runaway loop from blocking the server for everybody else, nothing more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from grus.server.http.errors import Refusal


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RateLimit:
    """`rate` requests a second for each person, after a burst of `burst`. Only used from the event loop."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def check(self, person: str) -> None:
        """Take one from the person's bucket, whichever token they use. Raises Refusal while it is empty."""
        now = self._clock()
        bucket = self._buckets.get(person)
        if bucket is None:  # only known people come here, so there are never more buckets than people
            bucket = self._buckets[person] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.left < 1:
            wait = (1 - bucket.left) / self._rate
            message = f"{person} asks more than {self._rate:g} times a second. Try again in {wait:.3f} s."
            raise Refusal(429, "too_many_requests", message, retry_after=wait)
        bucket.left -= 1
