"""Following all stages of a submission: their logs on stdout, their phases on stderr, one exit code.

Used by `submit --watch` of several jobs. Each line of a log stands behind the name of its stage.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from grus.cli.follow import follow_job
from grus.cli.follow.merged_logs import EVERY, MergedLogs
from grus.cli.render.output import hint, write_log
from grus.model.errors import NotFound
from grus.model.phases import TERMINAL
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client


def all_to_the_end(client: "Client", jobs: "Sequence[JobOut]", *, quiet: bool) -> int:
    """Follow these jobs and return the code of the whole; an interrupt leaves them running by default."""
    stages = [WatchedStage(client, job, quiet=quiet) for job in jobs]
    with follow_job.interrupts(follow_job.Interrupted(jobs, stop=False)):
        try:
            write_log(_lines(stages))
        except follow_job.Detached:
            hint("the stages continue without us; `grus ps --tree` shows them, `grus stop` ends them.")
            return follow_job.INTERRUPTED
    ended = [stage.job for stage in stages]
    causes = failed_by_themselves(ended)
    if not quiet:
        _show_causes(causes, ended)
    codes = {follow_job.exit_code(job) for job in causes}
    return codes.pop() if len(codes) == 1 else int(bool(codes))


class WatchedStage:
    """One stage: the job as last seen, and how far its log was read."""

    def __init__(self, client: "Client", job: "JobOut", *, quiet: bool) -> None:
        self.job = job
        self.finished = False
        self.idle = False
        """True if the last step found nothing new."""
        self._client = client
        self._silent = quiet
        self._shown = (job.phase, job.attempt)
        self._lost = 0
        """The attempt in which a log was last found to be gone."""
        self._read_from = 1
        self._log = MergedLogs(client, job.id, self._read_from, label=job.name)

    def step(self) -> Iterator[str]:
        """New lines of its log; the end is shown behind the last line."""
        self.job = self._client.job(self.job.id)
        over = self.job.phase in TERMINAL
        if not over:
            self._show_phase()
        self.finished, self.idle = over, not over
        if self.job.attempt:
            yield from self._new_lines()
        if self.finished:
            self._show_phase()

    def _new_lines(self) -> Iterator[str]:
        """New lines of its log; a log that is gone (its pods were deleted) does not end the watch."""
        try:
            yield from self._log.step(self.job)
            self.finished, self.idle = self._log.finished, self._log.quiet
        except NotFound as gone:
            if self._lost != self.job.attempt and not self._silent:
                hint(f"[grus] {self.job.name}: {gone}")
            self.finished = self.finished and self._read_from == self.job.attempt
            self._lost = self._read_from = self.job.attempt
            self._log = MergedLogs(self._client, self.job.id, self._read_from, label=self.job.name)

    def _show_phase(self) -> None:
        now = (self.job.phase, self.job.attempt)
        if now != self._shown and not self._silent:
            reason = self.job.reason and f" – {self.job.reason}"
            hint(f"[grus] {self.job.name}: {self.job.phase}{reason}")
        self._shown = now


def _lines(stages: Sequence[WatchedStage], pause: Callable[[float], object] = time.sleep) -> Iterator[str]:
    """Logs of all stages as they grow; a stage is looked at once those that it comes after have ended."""
    while left := {stage.job.id: stage for stage in stages if not stage.finished}:
        ready = [stage for stage in left.values() if left.keys().isdisjoint(stage.job.after)]
        for stage in ready:
            yield from stage.step()
        if all(stage.idle for stage in ready):
            pause(EVERY)


def failed_by_themselves(jobs: "Sequence[JobOut]") -> "list[JobOut]":
    """Jobs that did not succeed, without those that never started because an earlier one did not."""
    bad = {job.id: job for job in jobs if job.phase in ("failed", "stopped")}
    return [job for job in bad.values() if job.attempt or bad.keys().isdisjoint(job.after)]


def _show_causes(causes: "Sequence[JobOut]", jobs: "Sequence[JobOut]") -> None:
    for job in causes:
        hint(follow_job.end_words(job))
    if causes:
        done = sum(job.phase == "succeeded" for job in jobs)
        retry = f"; `grus retry {causes[0].id}` continues from there" if causes[0].graph else ""
        hint(f"{done} of {counted(len(jobs), 'stage')} succeeded{retry}")
