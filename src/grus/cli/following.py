"""Following a job to its end: its log on stdout, what Grus does with it on stderr, its exit code as ours.

Used by `run`, `attach`, `logs -f` and `submit --watch`. An interrupt (Ctrl-C) never ends the job by itself.
"""

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

import typer

from grus.cli.output import hint
from grus.model.errors import GrusError
from grus.model.jobs import TERMINAL

if TYPE_CHECKING:
    from grus.api.wire import JobOut
    from grus.sdk.client import Client

INTERRUPTED = 130
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
    client: "Client", job: "JobOut", *, worker: int | None = None, offset: int = 0, quiet: bool = False
) -> None:
    """Print the job's log until it has ended; tell what happens to it meanwhile, unless `quiet`."""
    if not quiet:
        teller = threading.Thread(target=_tell, args=(client, job.id), daemon=True)
        teller.start()
    for text in client.follow_log(job.id, worker=worker, offset=offset):
        sys.stdout.write(text)
        sys.stdout.flush()


def _tell(client: "Client", job: str) -> None:
    """Say the job's events on stderr as they happen; ends with the process, or with the connection."""
    with contextlib.suppress(GrusError, OSError, RuntimeError):
        for event in client.watch(job=job, after=0):
            hint(
                typer.style(f"[grus] {event.text}", dim=True)
                if sys.stderr.isatty()
                else f"[grus] {event.text}"
            )
            if event.kind in TERMINAL:
                return


def to_the_end(client: "Client", job: "JobOut", *, quiet: bool, stop_on_interrupt: bool = False) -> int:
    """Follow the job and return its code; an interrupt leaves it running unless people say otherwise."""
    while True:
        try:
            follow(client, job, quiet=quiet)
            break
        except KeyboardInterrupt:
            chosen = "stop" if stop_on_interrupt else _ask_what_now(job)
        if chosen == "stop":
            client.stop(job.id)
            stop_on_interrupt = False
            hint(f"stopping {job.id}; interrupt again to leave it to itself")
        elif chosen == "detach":
            hint(f"{job.id} goes on without us. See it with `grus attach {job.id}`, end it with `grus stop`.")
            return INTERRUPTED
    ended = client.job(job.id)
    code = exit_code(ended)
    if not quiet and ended.phase != "succeeded":
        hint(f"{ended.id} ({ended.name}) {ended.phase}: {ended.reason or 'no reason given'}")
    return code


def _ask_what_now(job: "JobOut") -> str:
    """What an interrupt means: asked on a terminal; elsewhere the job is left to itself."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "detach"
    try:
        answer = typer.prompt(
            f"\n{job.id} is still there: [d]etach and let it go on, [s]top it, or [c]ontinue watching?",
            default="d",
            err=True,
        )
    except (KeyboardInterrupt, typer.Abort):
        return "detach"
    return {"s": "stop", "c": "continue"}.get(answer.strip().lower()[:1], "detach")
