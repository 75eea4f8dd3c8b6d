"""The logs of all workers of a job as one, each line behind `[worker N]`, in rounds from worker to worker.

Lines are whole; between workers their order is that of the rounds, not of the clock. Numbers are ranks: in a
job that changes its size they may move to other workers.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from grus.cli.render.output import tell_attempt, tell_dropped
from grus.model.errors import NotFound
from grus.model.phases import TERMINAL

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client

LONGEST_LINE = 65536
"""Bytes after which a line is cut."""
EVERY = 0.3
"""Seconds between two rounds in which no worker wrote."""


class MergedLogs:
    """Logs of all workers of a job, read step by step as one.

    With a `label`, only worker 0 is read, and the label stands before its lines.
    """

    def __init__(
        self,
        client: "Client",
        job: str,
        attempt: int | None = None,
        label: str = "",
        *,
        only: bool = False,
    ) -> None:
        """Read this attempt; when followed, also later ones, unless it is the `only` one."""
        self.finished = False
        """True if a step has read everything and the job has ended."""
        self.quiet = False
        """True if the last step found nothing."""
        self._label = label
        self._client = client
        self._job = job
        self._attempt = attempt
        self._only = only
        self._offsets: list[int] = []
        self._rests: list[bytes] = []

    def so_far(self) -> Iterator[str]:
        """All that is there, worker by worker."""
        number = 0
        while (data := self._read(number)) is not None:
            while data:
                yield from self._lines(number, data)
                data = self._read(number)
            number += 1
        yield from self._unfinished()

    def follow(self, pause: Callable[[float], object] = time.sleep) -> Iterator[str]:
        """The same, and then what is still to come until the job has ended."""
        while not self.finished:
            yield from self.step(self._client.job(self._job))
            if self.quiet:
                pause(EVERY)

    def step(self, job: "JobOut") -> Iterator[str]:
        """Return lines written since the last step, without waiting; `job` is as it was before this step."""
        self.quiet = False
        self._attempt = self._attempt or job.attempt or None
        before = sum(self._offsets)
        yield from self._round()
        if sum(self._offsets) != before:
            return
        later = bool(self._attempt and self._attempt < job.attempt)
        if self._attempt and later and not self._only:
            yield from self._unfinished()
            self._attempt, self._offsets, self._rests = self._attempt + 1, [], []
            tell_attempt(self._attempt, self._label)
        elif later or job.phase in TERMINAL:
            yield from self._unfinished()
            self.finished = True
        else:
            self.quiet = True

    def _round(self) -> Iterator[str]:
        """The next whole lines of each worker."""
        number = 0
        while (data := self._read(number)) is not None:
            yield from self._lines(number, data)
            number += 1

    def _read(self, number: int) -> bytes | None:
        """The next bytes of this worker; None if there is no such worker, or it is not to be read."""
        if number and self._label:
            return None
        if number == len(self._offsets):
            self._offsets.append(0)
            self._rests.append(b"")
        try:
            offset = self._offsets[number]
            data, after = self._client.log(self._job, worker=number, offset=offset, attempt=self._attempt)
        except NotFound:
            if number == 0:
                raise
            return None
        self._offsets[number] = after
        if data and (dropped := after - len(data) - offset) > 0:
            tell_dropped(dropped)
        return data

    def _lines(self, number: int, data: bytes) -> Iterator[str]:
        *whole, rest = (self._rests[number] + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        self._rests[number] = rest
        for line in whole:
            yield f"[{self._name(number)}] {line.decode(errors='replace')}\n"

    def _unfinished(self) -> Iterator[str]:
        """Yield the last line of each log that ended without a line break."""
        for number, rest in enumerate(self._rests):
            if rest:
                yield f"[{self._name(number)}] {rest.decode(errors='replace')}\n"

    def _name(self, number: int) -> str:
        return self._label or f"worker {number}"
