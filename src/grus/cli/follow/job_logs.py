"""Logs of a job on the terminal: of all its attempts in order, or of one."""

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from grus.cli.follow import follow_job
from grus.cli.follow.merged_logs import MergedLogs
from grus.cli.render.output import (
    Format,
    emit_json,
    for_people,
    hint,
    plain,
    tell_attempt,
    tell_dropped,
    write_log,
)
from grus.model.errors import NotFound
from grus.model.texts.job_warnings import SAME_WORK

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client

T = TypeVar("T")
APART = "apart"
"""Kind of the event that reports such workers."""
CHUNK = 65536
LINE = 200
"""Bytes that a line has, roughly; lines are looked for from the end."""
Part = tuple[int, Iterable[bytes]]
"""An attempt and the pieces of its log."""


def print_log(
    client: "Client",
    job: "JobOut",
    *,
    worker: int | None,
    attempt: int | None,
    tail: int | None,
    follow: bool,
    output: Format,
) -> None:
    """Print the log so far, or its last lines; with `follow` also what is to come."""
    attempts = _attempts(job, attempt)
    log = _WorkerLog(client, job.id, worker)
    if not follow:
        _print(job, log.tail(attempts, tail) if tail is not None else log.whole(attempts), output)
        return
    offset = 0
    if tail is not None:
        lines, offset = log.last_lines(attempts[-1], tail)
        _print(job, [(attempts[-1], lines)], output)
    elif len(attempts) > 1:
        _print(job, log.whole(attempts[:-1]), output, several=True)
        tell_attempt(attempts[-1])
    follow_job.follow(client, job, worker=worker, offset=offset, attempt=attempt, since=attempts[-1])


def print_all_logs(
    client: "Client", job: "JobOut", *, attempt: int | None, follow: bool, output: Format
) -> None:
    """Print the logs of all workers, merged."""
    log = _WorkerLog(client, job.id, None)
    attempts = [one for one, _ in log.begun(_attempts(job, attempt))]
    if follow:
        follow_job.follow(client, job, every=True, attempt=attempt, since=attempts[0])
        return
    parts = ((one, map(str.encode, MergedLogs(client, job.id, one or None).so_far())) for one in attempts)
    _print(job, parts, output, several=len(attempts) > 1)


def report_copies(client: "Client", job: "JobOut", *, follow: bool) -> None:
    """Print beside the log that workers of a range never joined a worker group: the log looks sound."""
    if SAME_WORK not in job.warnings:
        return
    events = client.events(job=job.id)
    for text in dict.fromkeys(one.text for one in events if one.kind == APART):
        hint(f"[grus] {text}")
    if follow:
        follow_job.report_later(client, job.id, max((one.seq for one in events), default=0), APART)


def _attempts(job: "JobOut", attempt: int | None) -> list[int]:
    """The one that is named, else all; 0 is the present one of a job that has not started yet."""
    return [attempt] if attempt is not None else list(range(1, job.attempt + 1)) or [0]


def _print(job: "JobOut", parts: Iterable[Part], output: Format, *, several: bool | None = None) -> None:
    """Print each attempt's log, with a line before each if there are several."""
    if output is Format.JSON:
        texts = [(attempt, b"".join(pieces).decode(errors="replace")) for attempt, pieces in parts]
        attempts = [{"attempt": attempt, "log": text} for attempt, text in texts]
        emit_json({"job": plain(job.id), "log": "".join(text for _, text in texts), "attempts": attempts})
        return
    if several is None:
        parts = list(parts)
        several = len(parts) > 1
    for attempt, pieces in parts:
        if several:
            tell_attempt(attempt)
        if for_people():
            write_log(codecs.iterdecode(pieces, "utf-8", "replace"))
            continue
        for data in pieces:  # not decoded: a log is bytes
            sys.stdout.buffer.write(data)
        sys.stdout.flush()


class _WorkerLog:
    """Log of one worker, attempt by attempt."""

    def __init__(self, client: "Client", job: str, worker: int | None) -> None:
        self._client, self._job, self._worker = client, job, worker

    def whole(self, attempts: Sequence[int]) -> list[Part]:
        """Logs of these attempts."""
        return [(attempt, self._pieces(attempt, *first)) for attempt, first in self.begun(attempts)]

    def begun(self, attempts: Sequence[int]) -> Iterator[tuple[int, tuple[bytes, int]]]:
        """First pieces, and the offsets after them, of the attempts that have a log."""
        return self._there(attempts, lambda attempt: self._read(attempt, 0))

    def tail(self, attempts: Sequence[int], count: int) -> list[Part]:
        """The last lines, those of earlier attempts too if the last one has fewer."""
        found: list[Part] = []
        left = count
        for attempt, (lines, _) in self._there(attempts[::-1], lambda one: self.last_lines(one, count)):
            found.insert(0, (attempt, lines[max(0, len(lines) - left) :]))
            left -= len(lines)
            if left <= 0:
                break
        return found

    def _there(self, attempts: Sequence[int], read: Callable[[int], T]) -> Iterator[tuple[int, T]]:
        """Results of `read` for each attempt that has this worker. Raises NotFound if none has it."""
        missing: dict[int, NotFound] = {}
        for attempt in attempts:
            try:
                found = read(attempt)
            except NotFound as error:
                missing[attempt] = error
                continue
            yield attempt, found
        if missing and len(missing) == len(attempts):
            raise missing[attempts[0]]
        for attempt, why in missing.items():
            hint(f"[grus] attempt {attempt}: {why}")

    def last_lines(self, attempt: int, count: int) -> tuple[list[bytes], int]:
        """The last lines and the offset after them; reads ever more from the end until it has them."""
        reach = max(count * LINE, 4096)
        while True:
            data, offset = self._from_the_end(attempt, reach)
            lines = data.splitlines(keepends=True)
            if len(lines) > count or len(data) < reach:
                return lines[len(lines) - min(count, len(lines)) :], offset
            reach *= 4

    def _pieces(self, attempt: int, data: bytes, after: int) -> Iterator[bytes]:
        """The log of an attempt to its end, of which this is the first piece."""
        offset = 0
        while data and after != offset:
            if (dropped := after - len(data) - offset) > 0:
                tell_dropped(dropped)
            yield data
            offset = after
            data, after = self._read(attempt, offset)

    def _from_the_end(self, attempt: int, reach: int) -> tuple[bytes, int]:
        data, offset = self._read(attempt, -reach)
        parts = [data]
        while data:
            data, offset = self._read(attempt, offset)
            parts.append(data)
        return b"".join(parts), offset

    def _read(self, attempt: int, offset: int) -> tuple[bytes, int]:
        return self._client.log(
            self._job, worker=self._worker, offset=offset, limit=CHUNK, attempt=attempt or None
        )
