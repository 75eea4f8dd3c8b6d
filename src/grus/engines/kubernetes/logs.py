"""Worker logs: copied from the nodes into the engine's own folder, where they outlive the pods.

A kubelet gives a container's output from its beginning only, the newest part only of rotated output, and
nothing of a deleted pod once it has ended. So output that was read once is kept here (as the local engine
keeps logs). A thread follows a worker that is read repeatedly or asked to stop. The rest is fetched when the
worker is forgotten.
"""

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from grus.engines.gpu_memory import TAIL
from grus.engines.local.log_rotation import LogWriter, names, read
from grus.engines.local.state_files import safe_name
from grus.kubernetes.client.api import Api, LogStream
from grus.kubernetes.client.errors import Refused, Unreachable
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, WorkerId

logger = logging.getLogger(__name__)

AGAIN = 10.0
"""Seconds: two reads of a living worker's log within these start a follower."""
IDLE = 30.0
"""Seconds after which a worker without readers is not followed any more."""
MOST_FOLLOWED = 256
OPENING = 2.0
"""Seconds that a stop waits for its worker to be followed."""
DRAINING = 3.0
"""Seconds for the rest of what an ended worker printed: kubelets see its end after one."""
_MARK = 256
"""Bytes of what we have by which its end is found again in what the kubelet has."""
_SHORTEST = 16
"""Bytes: so few that are the same may be so by chance."""
_LONGEST_EXCUSE = 1000
_EXCUSE = re.compile(
    rb"(unable to retrieve container logs for [a-z]+://[0-9a-f]+"
    rb'|(failed to get container status "[^"\n]*": )?rpc error: code = NotFound desc = an error occurred '
    rb'when try to find container "[0-9a-f]+": not found)$'
)
"""Kubelet messages, mixed into the output, about a container that it has removed: at once, or at the end."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """Container whose output is read."""

    namespace: str
    pod: str
    container: str
    over: bool
    """True if the container will print no more."""


@dataclass(slots=True)
class Copy:
    """Our copy of one worker's log."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    writer: LogWriter | None = None
    lost: int = 0
    """Bytes that we have and the kubelet has no more."""
    whole: bool = False
    """True if there will be no more output."""
    read_at: float = -1e9
    follower: "Follower | None" = None


class Logs:
    """All of them, below one folder. Any thread."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api = api
        self._folder = folder
        self._guard = threading.Lock()
        self._copies: dict[WorkerId, Copy] = {}

    def read(
        self, worker: WorkerId, job: JobId, source: LogSource | None, offset: int, limit: int
    ) -> tuple[bytes, int]:
        """Read like `Engine.log`; without a source, from the stored copy."""
        copy = self._copy(worker, job)
        if source is not None and not copy.whole:
            self._bring_up_to_date(copy, source)
        return read(str(copy.folder), offset, limit)

    def kept(self, worker: WorkerId) -> Path:
        """The folder of a forgotten worker's log. Raises NotFound."""
        if safe_name(worker):
            guess = self._folder / worker.partition(".")[0] / worker
            for folder in (guess, *self._folder.glob(f"*/{worker}")):
                if folder.is_dir():
                    return folder
        raise NotFound(f"there is no log of a worker {worker}")

    def workers(self, job: JobId) -> tuple[WorkerId, ...]:
        """Return the workers of this job whose logs were copied."""
        return tuple(map(WorkerId, names(str(self._folder / job)))) if safe_name(job) else ()

    def keep(self, worker: WorkerId, job: JobId, source: LogSource) -> None:
        """Fetch what is missing, for the pod is going. Raises Unreachable if its node does not answer."""
        copy = self._copy(worker, job)
        with copy.lock:
            if not copy.whole:
                self._fetch(copy, source)
        self.drop(worker)

    def drop(self, worker: WorkerId) -> None:
        """Stop copying: there is nothing more to fetch; the stored part stays."""
        with self._guard:
            copy = self._copies.pop(worker, None)
        if copy is not None and copy.follower is not None:
            copy.follower.close()

    def follow(self, worker: WorkerId, job: JobId, source: LogSource) -> None:
        """Copy its output from now on: its pod is about to be deleted, and its last output with it."""
        copy = self._copy(worker, job)
        with copy.lock:
            if copy.whole or (copy.follower is not None and copy.follower.alive):
                return
            if self._followed() < MOST_FOLLOWED:
                copy.read_at = time.monotonic()
                copy.follower = Follower(self._api, copy, source, idle=False)
                copy.follower.begun.wait(OPENING)

    def tail(self, source: LogSource) -> bytes:
        """The end of the log; empty if it cannot be had."""
        try:
            with self._api.log(
                source.pod, source.namespace, source.container, tail_lines=100, limit_bytes=1 << 20
            ) as lines:
                return b"".join(printed(lines))[-TAIL:]
        except (Refused, Unreachable) as why:
            logger.info("the log of pod %s/%s cannot be read: %s", source.namespace, source.pod, why)
            return b""

    def remove(self, job: JobId) -> None:
        if safe_name(job):
            shutil.rmtree(self._folder / job, ignore_errors=True)

    def tend(self) -> None:
        """Stop followers that have no reader."""
        now = time.monotonic()
        with self._guard:
            followers = [(copy.follower, copy.read_at) for copy in self._copies.values()]
        for follower, read_at in followers:
            if follower is not None and follower.idle and now - read_at > IDLE:
                follower.close()

    def close(self) -> None:
        with self._guard:
            copies, self._copies = list(self._copies.values()), {}
        for copy in copies:
            if copy.follower is not None:
                copy.follower.close()

    def _copy(self, worker: WorkerId, job: JobId) -> Copy:
        with self._guard:
            if worker not in self._copies:
                if not (safe_name(worker) and safe_name(job)):
                    raise NotFound(f"there is no log of a worker {worker}")
                self._copies[worker] = Copy(self._folder / job / worker)
            return self._copies[worker]

    def _bring_up_to_date(self, copy: Copy, source: LogSource) -> None:
        with copy.lock:
            now = time.monotonic()
            again, copy.read_at = now - copy.read_at < AGAIN, now
            if copy.follower is not None and copy.follower.alive and not source.over:
                return
            with suppress(Unreachable):  # the stored part is better than nothing
                self._fetch(copy, source)
            if again and not source.over and self._followed() < MOST_FOLLOWED:
                copy.follower = Follower(self._api, copy, source, idle=True)

    def _followed(self) -> int:
        with self._guard:
            return sum(one.follower is not None and one.follower.alive for one in self._copies.values())

    def _fetch(self, copy: Copy, source: LogSource) -> None:
        """Fetch the output under the copy's lock, so that there is no other writer."""
        follower, copy.follower = copy.follower, None
        if follower is not None:
            if source.over:
                follower.wait(DRAINING)
            follower.close()
        try:
            if follower is None or not follower.complete:
                take(copy, self._api, source)
        except Refused as why:  # it has not started to print, or is gone
            logger.debug("no more of the log of pod %s: %s", source.pod, why)
        copy.whole = source.over


class Follower:
    """A thread that copies a container's output while it is printed; while it lives there is no other writer.

    A thread that follows for a reader (`idle`) ends when the reader is gone.
    """

    def __init__(self, api: Api, copy: Copy, source: LogSource, *, idle: bool) -> None:
        self._api, self._copy, self._source = api, copy, source
        self.idle = idle
        self.begun = threading.Event()
        self.complete = False
        """True if it has reached the end."""
        self._closed = False
        self._stream: LogStream | None = None
        self._thread = threading.Thread(target=self._run, name=f"grus-log-{source.pod}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        self._thread.join()

    def _opened(self, stream: LogStream) -> None:
        self._stream = stream
        self.begun.set()
        if self._closed:
            stream.close()

    def _run(self) -> None:
        try:
            take(self._copy, self._api, self._source, self._opened)
            self.complete = not self._closed
        except (Refused, Unreachable) as why:
            logger.debug("pod %s is not followed any more: %s", self._source.pod, why)
        except Exception:  # thread boundary; the next reader fetches by itself
            logger.exception("following pod %s failed", self._source.pod)
        finally:
            self.begun.set()


class Rotated(Exception):
    """The kubelet does not have what we have."""


def printed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces without kubelet messages in place of, or after, a container's output."""
    for piece in pieces:
        excuse = _EXCUSE.search(piece, max(0, len(piece) - _LONGEST_EXCUSE))
        if excuse is None:
            yield piece
        elif excuse.start():
            yield piece[: excuse.start()]


def take(copy: Copy, api: Api, source: LogSource, follow: Callable[[LogStream], None] | None = None) -> None:
    """Append the output that the kubelet has and the copy lacks; with `follow`, to its end.

    `follow` receives the stream.
    """
    if copy.writer is None:
        copy.writer = LogWriter(str(copy.folder), resume=True)
    while True:
        skip = copy.writer.end - copy.lost
        mark = copy.writer.tail(min(_MARK, skip))
        with api.log(source.pod, source.namespace, source.container, follow=follow is not None) as stream:
            if follow is not None:
                follow(stream)
            try:
                for piece in after(printed(stream), skip, mark):
                    copy.writer.write(piece)
                return
            except Rotated:
                pass
        _rejoin(copy, copy.writer, api, source)


def after(pieces: Iterator[bytes], skip: int, mark: bytes) -> Iterator[bytes]:
    """The pieces without the first `skip` bytes, the last of which have to be `mark`; raises Rotated.

    No pieces at all mean that nothing is kept any more.
    """
    seen = b""
    for piece in pieces:
        known, new = piece[:skip], piece[skip:]
        if known:
            skip -= len(known)
            seen = (seen + known)[-len(mark) :]
            if not skip and seen != mark:
                raise Rotated
        if new:
            yield new
    if skip and seen:
        raise Rotated


def _rejoin(copy: Copy, writer: LogWriter, api: Api, source: LogSource) -> None:
    """Continue with the output that the kubelet still has, after the place where both copies agree."""
    with api.log(source.pod, source.namespace, source.container) as log:
        found = b"".join(printed(log))
    writer.write(found[known(found, writer.tail(_MARK)) :])
    copy.lost = writer.end - len(found)


def known(found: bytes, mark: bytes) -> int:
    """Return the number of bytes of `found` that the copy has, if its last bytes are `mark`."""
    at = found.rfind(mark)
    if at >= 0:
        return at + len(mark)
    return next((n for n in range(len(mark), _SHORTEST, -1) if found.startswith(mark[-n:])), 0)
