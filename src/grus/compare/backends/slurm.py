"""Slurm: a run is a batch job. Its folder lies where the nodes see it too, and so does what the run leaves.

Needs no rights but those of a user: sbatch on this machine, and a folder that is shared with the nodes (the
home, or what GRUS_SHARED names). The job keeps nothing of the submitter's environment but the way to its
programs, as in any other environment.
"""

import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grus.compare import preflight, records
from grus.compare.backends import slurm_commands as slurm
from grus.compare.backends import staging
from grus.compare.backends.run_wait import PollSchedule
from grus.compare.backends.slurm_commands import SlurmJob
from grus.compare.backends.staging import StagingFolder
from grus.compare.environments import (
    SAMPLER,
    Check,
    CollectedFiles,
    DriverFailed,
    Ending,
    EndingKind,
    Environment,
    ManualStep,
    Order,
    Started,
    Tell,
)
from grus.compare.workload import Workload
from grus.model.texts.units import parse_bytes

SCRIPT = """#!/bin/sh
# Says when it has its resources, then becomes the program.
date +%s.%N > "$1/began"
shift
exec python3 "$@"
"""
KEPT = "PATH,HOME,USER,LOGNAME,LANG,VIRTUAL_ENV,CONDA_PREFIX,LD_LIBRARY_PATH"
PRINTED = "printed.txt"
PROBE = "probe"
PROBE_PATIENCE = 900.0
"""Seconds that the probe may wait in the queue."""
SLACK_MINUTES = 5
"""Time limit beyond the workload's own: for the setup, and so that the sampler ends it, not Slurm."""
LOOK = 0.5
"""Seconds between two looks at a job."""
GONE_PATIENCE = 60.0


class Slurm:
    """A partition of the cluster that this machine belongs to."""

    def __init__(
        self,
        environment: Environment,
        *,
        base: Path | None = None,
        watch: PollSchedule = PollSchedule(clock=time.time, pause=time.sleep, every=LOOK),  # noqa: B008 - a value
    ) -> None:
        self._environment = environment
        self._base = base
        self._watch = watch
        self._key = ""
        self._stage: StagingFolder | None = None
        self._workload: Workload | None = None
        self._one_clock = True
        self._asked: dict[str, str] = {}
        """The words of each run's submission: they explain what it got."""

    @property
    def environment(self) -> Environment:
        return self._environment

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        self._key = staging.key(self._environment, bundle)
        self._workload = workload
        self._stage = StagingFolder((self._base or staging.usual_base()) / self._key)
        if not slurm.missing():
            self._take_back(self._left())
        self._stage.set_up(bundle)
        (self._stage.folder / "batch.sh").write_text(SCRIPT)
        (self._stage.folder / "probe.py").write_text(preflight.source())
        why = "Slurm takes jobs from machines of its cluster only"
        return (
            ManualStep(what="log in to a machine of the cluster and start the comparison there", why=why),
        )

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        fix = "log in to a machine of the cluster, where Slurm's programs are on PATH and configured"
        if missing := slurm.missing():
            return (preflight.unreachable(f"no {', no '.join(missing)} on PATH", fix),)
        try:
            there = slurm.partitions(self._environment.target)
        except DriverFailed as why:
            return (preflight.unreachable(str(why), fix),)
        if not there:
            name = self._environment.target or "usual"
            return (
                preflight.unreachable(
                    f"there is no {name} partition", "choose one of sinfo's: --env slurm=NAME"
                ),
            )
        return (preflight.reachable(f"partition {'; '.join(there)}"), *self._probed(workload))

    def start(self, order: Order) -> Started:
        name = self._name(order.name)
        self._take_back([job for job, called in slurm.mine().items() if called == name])
        file = self._here.order(order.name, order.text())
        run = self._here.run(order.name)
        at = self._watch.clock()
        handle = self._submit(order.name, [SAMPLER, str(file), str(run)])
        return Started(order=order, handle=handle, submitted_at=at)

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        job, running = self._until_over(started.handle, started.submitted_at + seconds, tell)
        run = self._here.run(started.order.name)
        if job is not None and not job.over:
            self._take_back([started.handle])
            return Ending(end=EndingKind.TIMED_OUT, why=f"it was {job.state} ({job.reason})", node=job.node)
        record = self.collect(started).record
        had = _moment(run / "began")
        end, why = _end(job, record, began=had is not None, printed=_last(run / PRINTED))
        queued = staging.span(started.submitted_at, had) if self._one_clock else None
        return Ending(
            end=end,
            why=why,
            queued=staging.span(started.submitted_at, running) if queued is None else queued,
            startup=staging.span(had, records.began(record)),
            node=job.node if job else "",
        )

    def collect(self, started: Started) -> CollectedFiles:
        found = self._here.collected(started.order)
        files = (("batch.sh", SCRIPT), ("sbatch.txt", self._asked.get(started.order.name, "")))
        return replace(found, files=files)

    def clean_up(self) -> None:
        if self._stage is None:
            return
        if not slurm.missing():
            self._take_back(self._left())
        self._stage.remove()

    # ----------------------------------------------------------------------------------------------- inside

    @property
    def _here(self) -> StagingFolder:
        if self._stage is None:
            raise DriverFailed(f"{self._environment}: prepare it first")
        return self._stage

    @property
    def _prefix(self) -> str:
        return f"grus-{self._key}-"

    def _name(self, run: str) -> str:
        return self._prefix + staging.checked(run)

    def _submit(self, name: str, words: Sequence[str]) -> str:
        """The program with these words, in the bundle's folder."""
        run, bundle = self._here.run(name), self._here.bundle
        # Slurm reads % in a path as a pattern, so what it prints goes to a name relative to the folder.
        printed = f"../runs/{run.name}/{PRINTED}"
        where = [f"--chdir={bundle}", f"--output={printed}", f"--error={printed}", "--open-mode=truncate"]
        options = [f"--job-name={self._name(name)}", *where, *self._resources()]
        self._asked[name] = shlex.join(["sbatch", *options, "batch.sh", *words])
        return slurm.submit(options, self._here.folder / "batch.sh", [str(run), *words])

    def _left(self) -> list[str]:
        """Return this comparison's jobs that are queued or running, from any process that started them."""
        return [job for job, name in slurm.mine().items() if name.startswith(self._prefix)]

    def _resources(self) -> list[str]:
        workload = self._workload
        assert workload is not None, "prepare sets both"
        options = ["--no-requeue", "--nodes=1", "--ntasks=1", f"--export={KEPT}"]
        if self._environment.target:
            options.append(f"--partition={self._environment.target}")
        if workload.gpus:
            kind = f"{workload.gpu_type}:" if workload.gpu_type else ""
            options.append(f"--gres=gpu:{kind}{workload.gpus}")
        shares, asked = max(1, workload.gpus), workload.job.resources
        if asked.cpu is not None:
            options.append(f"--cpus-per-task={math.ceil(asked.cpu * shares)}")
        if asked.memory is not None:
            options.append(f"--mem={math.ceil(parse_bytes(asked.memory) * shares / 2**20)}M")
        if workload.limit is not None:
            options.append(f"--time={math.ceil(workload.limit / 60) + SLACK_MINUTES}")
        return options

    def _probed(self, workload: Workload) -> tuple[Check, ...]:
        before = self._watch.clock()
        file = self._here.order(PROBE, preflight.instructions(workload, str(self._here.bundle / "code")))
        try:
            handle = self._submit(PROBE, ["../probe.py", str(file)])
            job, _ = self._until_over(handle, before + PROBE_PATIENCE, lambda _: None)
        except DriverFailed as why:
            return (preflight.unseen(str(why)),)
        if job is not None and not job.over:
            self._take_back([handle])
            fix = "ask for less, or choose a partition that is free"
            return (preflight.unseen(f"it waited {PROBE_PATIENCE:.0f} s in the queue ({job.reason})", fix),)
        printed = _read(self._here.run(PROBE) / PRINTED)
        found = preflight.found_in(printed)
        if found is None:
            fix = "its folder must be shared with the nodes, and python3 be there; or name it by GRUS_SHARED"
            said = printed.strip()[-300:] or f"nothing came back to {self._here.folder}"
            return (preflight.unseen(said, fix),)
        checks = preflight.judged(found, workload, (before, self._watch.clock()))
        self._one_clock = preflight.clocks_agree(checks)
        return (*checks, *preflight.without_image(workload.image))

    def _until_over(self, handle: str, until: float, tell: Tell) -> tuple[SlurmJob | None, float | None]:
        """Wait until it has ended or time is up; return its state (None: forgotten) and when it first ran."""
        seen: list[float] = []

        def look() -> SlurmJob | None:
            job = slurm.look(handle)
            if job is not None and job.state == "RUNNING" and not seen:
                seen.append(self._watch.clock())
            return job

        job = self._watch.until(
            lambda job: job is None or job.over,
            look,
            word=lambda job: f"{job.state} {job.reason}".strip().lower() if job else "",
            deadline=until,
            tell=tell,
        )
        return job, seen[0] if seen else None

    def _take_back(self, jobs: Sequence[str]) -> None:
        """Canceled, and gone: what still runs would be measured with the next run."""
        slurm.cancel(jobs)
        until = self._watch.clock() + GONE_PATIENCE
        for handle in jobs:
            job, _ = self._until_over(handle, until, lambda _: None)
            if job is not None and not job.over:
                raise DriverFailed(f"Slurm still runs {handle} ({job.state}): scancel {handle}")


def _end(job: SlurmJob | None, record: str, *, began: bool, printed: str) -> tuple[EndingKind, str]:
    """Return the kind of end, from Slurm's report and the files that exist."""
    state = job.state if job else "forgotten by Slurm"
    reason = f"{state} ({job.reason})" if job and job.reason else state
    if not record:
        return EndingKind.NEVER_STARTED, f"{reason}: {printed}" if began and printed else reason
    if staging.ended(record) and state not in slurm.KILLED:
        return EndingKind.ENDED, ""
    return EndingKind.KILLED, reason


def _moment(file: Path) -> float | None:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return None


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _last(file: Path) -> str:
    lines = _read(file).strip().splitlines()
    return lines[-1] if lines else ""
