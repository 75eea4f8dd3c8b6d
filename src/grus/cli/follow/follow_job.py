"""Following a job to its end: its log on stdout, what Grus does with it on stderr, its exit code as ours.

Used by `run`, `attach`, `logs -f` and `submit --watch`. An interrupt (Ctrl-C) never ends the job by itself.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from grus.cli.connection import connected
from grus.cli.follow.merged_logs import MergedLogs
from grus.cli.render.output import hint, tell_attempt, tell_dropped, write_log
from grus.model.errors import Conflict
from grus.model.phases import TERMINAL

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client, LogPiece

log = logging.getLogger(__name__)

INTERRUPTED = 130
LAST_WORDS = 2.0
"""Seconds to wait for the last events of a job whose log has ended."""
BY_SIGNAL = 128
CODES = {
    "could not start": 127,
    "out of memory": 137,
    "CUDA out of memory": 1,
    "ran too long": 143,
    "stopped": 143,
}
"""Exit codes of ends that have none of their own, as shells give them (127 not found, 128 + signal)."""


def exit_code(job: "JobOut") -> int:
    """The job's own code: what its command returned, 128 + n for signal n, else by the cause."""
    if job.phase == "succeeded":
        return 0
    if job.phase == "stopped":
        return CODES["stopped"]
    if job.exit is None:
        return 1
    if job.exit.cause == "signal" and job.exit.code:
        return BY_SIGNAL + job.exit.code
    return CODES.get(job.exit.cause) or job.exit.code or 1


def follow(
    client: "Client",
    job: "JobOut",
    *,
    worker: int | None = None,
    every: bool = False,
    offset: int = 0,
    told: int | None = None,
    attempt: int | None = None,
    since: int | None = None,
) -> None:
    """Print the job's log until it has ended; with `told`, also print its events after that sequence number.

    The log is that of one worker, or (`every`) the merged logs of all workers: of this `attempt` alone, or of
    all attempts from `since` (the current one) on.
    """
    teller = threading.Thread(target=_tell, args=(client, job.id, told), daemon=True)
    if told is not None:
        teller.start()
    if every:
        write_log(MergedLogs(client, job.id, since, only=attempt is not None).follow())
    else:
        pieces = client.follow_pieces(job.id, worker=worker, offset=offset, attempt=attempt, since=since)
        write_log(_announced(pieces, since))
    if told is not None:
        teller.join(LAST_WORDS)


def _announced(pieces: "Iterable[LogPiece]", attempt: int | None) -> Iterator[str]:
    """The text of these pieces; says where an attempt begins and what log rotation has dropped."""
    for piece in pieces:
        if attempt is not None and piece.attempt != attempt:
            tell_attempt(piece.attempt)
        attempt = piece.attempt
        if piece.dropped:
            tell_dropped(piece.dropped)
        yield piece.text


def report_later(client: "Client", job: str, after: int, kind: str) -> None:
    """Report events of one kind on stderr while the log is followed."""
    threading.Thread(target=_tell, args=(client, job, after, kind), daemon=True).start()


def _tell(client: "Client", job: str, after: int | None, kind: str = "") -> None:
    """Say the job's events on stderr as they happen; ends with the job, the connection or the process."""
    try:
        for event in client.watch(job=job, after=after):
            if kind in ("", event.kind):
                hint(f"[grus] {event.text}", dim=sys.stderr.isatty())
            if event.kind in TERMINAL:
                return
    except Exception as error:
        log.debug("watching the events of %s failed", job, exc_info=True)
        hint(f"[grus] events of {job} are no longer shown: {error}", dim=sys.stderr.isatty())


def to_the_end(
    client: "Client",
    job: "JobOut",
    *,
    quiet: bool,
    every: bool = False,
    told: int = 0,
    stop_on_interrupt: bool = False,
) -> int:
    """Follow the job and return its code; an interrupt leaves it running unless people say otherwise."""
    with interrupts(Interrupted([job], stop_on_interrupt)):
        try:
            follow(client, job, every=every, told=None if quiet else told)
        except Detached:
            hint(f"{job.id} goes on without us; `grus attach {job.id}` shows it, `grus stop` ends it.")
            return INTERRUPTED
    ended = client.job(job.id)
    if not quiet and ended.phase != "succeeded":
        hint(end_words(ended))
    return exit_code(ended)


def end_words(ended: "JobOut") -> str:
    return f"{ended.id} ({ended.name}) {ended.phase}: {ended.reason or 'no reason given'}"


# --------------------------------------------------------------------------------------------- interrupts


class Detached(KeyboardInterrupt):
    """The user stopped watching; the job continues."""


class Interrupted:
    """Ctrl-C while jobs are watched: ask what to do inside the wait, so that watching can simply continue."""

    def __init__(self, jobs: "Sequence[JobOut]", stop: bool) -> None:
        self._jobs = jobs
        self._name = jobs[0].id if len(jobs) == 1 else f"this submission ({len(jobs)} jobs)"
        self._stop = stop
        self._stopping = False

    def __call__(self, *_: object) -> None:
        chosen = "detach" if self._stopping else "stop" if self._stop else self._ask()
        if chosen == "detach":
            raise Detached
        if chosen == "continue":
            with _held():
                hint("watching goes on")
        if chosen == "stop":
            self._stopping = True
            with connected() as client:  # the other one may be in the middle of something
                for job in reversed(self._jobs):  # a stage before those that it waits for
                    with suppress(Conflict):  # it has ended already
                        client.stop(job.id)
            with _held():
                hint(f"{self._name} is asked to end; interrupt again to leave it to itself")

    def _ask(self) -> str:
        """Ask on a terminal; elsewhere the job is left running, and so it is by a second Ctrl-C."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return "detach"
        with interrupts(signal.default_int_handler):
            try:
                question = f"\n{self._name} is still there: [d]etach and let it go on, [s]top it, [c]ontinue?"
                answer = typer.prompt(question, default="d", err=True)
            except (KeyboardInterrupt, typer.Abort):
                return "detach"
        return {"s": "stop", "c": "continue"}.get(answer.strip().lower()[:1], "detach")


@contextmanager
def interrupts(handler: Callable[..., object]) -> Iterator[None]:
    """Ctrl-C means this for a while."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _held() -> Iterator[None]:
    """Ctrl-C waits until this is done: answering it in the middle of a write would write into that write."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
