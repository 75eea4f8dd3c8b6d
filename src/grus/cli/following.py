"""Following a job to its end: its log on stdout, what Grus does with it on stderr, its exit code as ours.

Used by `run`, `attach`, `logs -f` and `submit --watch`. An interrupt (Ctrl-C) never ends the job by itself.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from grus.cli.access import connected
from grus.cli.merged import Merged
from grus.cli.output import hint, write_log
from grus.model.phases import TERMINAL

if TYPE_CHECKING:
    from grus.api.wire import JobOut
    from grus.sdk.client import Client

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
) -> None:
    """Print the job's log until it has ended; with `told`, also say its events after that one.

    The log is that of one worker, or (`every`) those of all of them merged.
    """
    teller = threading.Thread(target=_tell, args=(client, job.id, told), daemon=True)
    if told is not None:
        teller.start()
    pieces = (
        Merged(client, job.id).follow() if every else client.follow_log(job.id, worker=worker, offset=offset)
    )
    write_log(pieces)
    if told is not None:
        teller.join(LAST_WORDS)


def _tell(client: "Client", job: str, after: int | None) -> None:
    """Say the job's events on stderr as they happen; ends with the job, the connection or the process."""
    try:
        for event in client.watch(job=job, after=after):
            hint(f"[grus] {event.text}", dim=sys.stderr.isatty())
            if event.kind in TERMINAL:
                return
    except Exception:
        log.debug("the events of %s can no longer be told", job, exc_info=True)


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
    with _interrupts(Interrupted(job, stop_on_interrupt)):
        try:
            follow(client, job, every=every, told=None if quiet else told)
        except Detached:
            hint(f"{job.id} goes on without us; `grus attach {job.id}` shows it, `grus stop` ends it.")
            return INTERRUPTED
    ended = client.job(job.id)
    if not quiet and ended.phase != "succeeded":
        hint(_how(ended))
    return exit_code(ended)


def all_to_the_end(client: "Client", jobs: "Sequence[JobOut]", *, quiet: bool) -> int:
    """Follow all stages, each after those that it waits for, and return the code of the first that failed.

    Stages that never started because of it, and ones that ran all the same, do not hide it.
    """
    for job in _in_order(jobs):
        if not quiet:
            hint(f"{job.id} ({job.name}):")
        code = to_the_end(client, job, quiet=quiet)
        if code == INTERRUPTED and client.job(job.id).phase not in TERMINAL:
            return code
    ended = [client.job(job.id) for job in jobs]
    bad = sorted((one for one in ended if one.phase != "succeeded"), key=_came_first)
    if bad and not quiet:
        hint(f"{len(bad)} of {len(jobs)} stages did not succeed; the first: {_how(bad[0])}")
    return exit_code(bad[0]) if bad else 0


def _in_order(jobs: "Sequence[JobOut]") -> "Iterator[JobOut]":
    """Each after those that it waits for, else as in the file."""
    waiting = list(jobs)
    while waiting:
        left = {job.id for job in waiting}
        ready = next((job for job in waiting if not left.intersection(job.after)), waiting[0])
        waiting.remove(ready)
        yield ready


def _came_first(ended: "JobOut") -> tuple[bool, str]:
    """What ran and failed is the reason of what never started."""
    return (ended.first_started_at is None, ended.ended_at or "")


def _how(ended: "JobOut") -> str:
    return f"{ended.id} ({ended.name}) {ended.phase}: {ended.reason or 'no reason given'}"


# --------------------------------------------------------------------------------------------- interrupts


class Detached(KeyboardInterrupt):
    """We stop watching; the job goes on."""


class Interrupted:
    """What Ctrl-C does while a job is watched. It runs inside the wait, so that watching can simply go on."""

    def __init__(self, job: "JobOut", stop: bool) -> None:
        self._job = job
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
                client.stop(self._job.id)
            with _held():
                hint(f"{self._job.id} is asked to end; interrupt again to leave it to itself")

    def _ask(self) -> str:
        """Asked on a terminal; elsewhere the job is left to itself, and so it is by a second Ctrl-C."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return "detach"
        with _interrupts(signal.default_int_handler):
            try:
                question = (
                    f"\n{self._job.id} is still there: [d]etach and let it go on, [s]top it, [c]ontinue?"
                )
                answer = typer.prompt(question, default="d", err=True)
            except (KeyboardInterrupt, typer.Abort):
                return "detach"
        return {"s": "stop", "c": "continue"}.get(answer.strip().lower()[:1], "detach")


@contextmanager
def _interrupts(handler: Callable[..., object]) -> Iterator[None]:
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
