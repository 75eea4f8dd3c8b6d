"""The replay of a Pollux workload: 16 nodes of 4 GPUs, a decision every 60 s, 30 s for every (re)start.

The engine moves jobs along their true curves and applies what a policy decides. It knows no policy, and gives
a policy no more than the jobs: what a policy may read of them is stated where it is defined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.pollux_traces import Submission
from grus.simulator.workload.pollux_applications import Application, Placement, rigid_batch

NODES = 16
PER_NODE = 4
TICK = 60
RESTART = 30

Allocation = tuple[int, ...]  # a node for every GPU, GPUs of a node together


@dataclass(slots=True)
class Running:
    """One job of the replay: where it runs and how far it is."""

    submission: Submission
    app: Application
    fixed_batch: int | None = None
    allocation: Allocation = ()
    placement: Placement = ()
    local: int = 0
    accumulation: int = 0
    delay: float = 0
    time: float = 0
    progress: float = 0.0
    epoch: int = 0
    done_at: float | None = None
    starts: int = 0

    @property
    def name(self) -> str:
        return self.submission.name

    @property
    def gpus(self) -> int:
        return len(self.allocation)


class Batching(Protocol):
    """Chooses batch sizes, and sees what a running job would see of itself."""

    def choose(self, job: Running) -> tuple[int, int]:
        """Local batch and accumulation steps for the job's present placement."""

    def observe(self, job: Running, step: float, sync: float, grad_sqr: float, grad_var: float) -> None:
        """One measurement at the job's present placement and batch."""

    def finished(self, job: Running) -> None:
        """The job is done."""


class Policy(Protocol):
    """Decides who runs where."""

    def decide(
        self, now: float, active: Sequence[Running], before: Mapping[str, Allocation]
    ) -> dict[str, Allocation]:
        """The whole allocation from now on; a job that is left out does not run."""


class AskedBatch:
    """The batch that the user asked for, whatever the size."""

    def choose(self, job: Running) -> tuple[int, int]:
        return rigid_batch(job.app, job.fixed_batch or job.app.first_batch, job.gpus)

    def observe(self, job: Running, step: float, sync: float, grad_sqr: float, grad_var: float) -> None:
        """A fixed batch needs no measurements."""

    def finished(self, job: Running) -> None:
        """Nothing is kept."""


@dataclass(slots=True)
class Outcome:
    """Completion time of each job since its submission, and when the last one ended."""

    times: dict[str, float] = field(default_factory=dict)
    makespan: float = 0.0

    @property
    def mean(self) -> float:
        return sum(self.times.values()) / len(self.times)


def replay(jobs: Sequence[Running], policy: Policy, batching: Batching) -> Outcome:
    """Run a workload to its end, tick by tick."""
    now, before = 0.0, dict[str, Allocation]()
    going = list(jobs)
    while going:
        for job in going:
            advance(job, TICK, batching)
        now += TICK
        for job in going:
            if job.done_at is not None:
                batching.finished(job)
        going = [job for job in going if job.done_at is None]
        active = [job for job in going if job.submission.time <= now]
        if active:
            names = {job.name for job in active}
            before = {name: where for name, where in before.items() if name in names}
            after = policy.decide(now, active, before)
            for job in active:
                if after.get(job.name, ()) != before.get(job.name, ()):
                    reallocate(job, after.get(job.name, ()), batching)
            before = after
    return outcome(jobs)


def outcome(jobs: Sequence[Running]) -> Outcome:
    ends = {job.name: job.done_at for job in jobs if job.done_at is not None}
    times = {job.name: ends[job.name] - job.submission.time for job in jobs}
    return Outcome(times, max(ends.values()))


def reallocate(job: Running, allocation: Allocation, batching: Batching) -> None:
    job.allocation = allocation
    job.placement = run_lengths(allocation)
    if allocation:
        job.local, job.accumulation = batching.choose(job)
        job.delay = RESTART
        job.starts += 1


def run_lengths(allocation: Allocation) -> Placement:
    lengths: list[int] = []
    for index, node in enumerate(allocation):
        if index and allocation[index - 1] == node:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return tuple(lengths)


def advance(job: Running, seconds: float, batching: Batching) -> None:
    """Let a job run; it measures itself and chooses its batch anew after every epoch and at the end."""
    if not job.placement:
        job.time += seconds
        return
    waited = min(job.delay, seconds)
    job.delay -= waited
    job.time += waited
    left = seconds - waited
    while left > 0 and job.done_at is None:
        left -= _pass(job, left, batching)
        job.local, job.accumulation = batching.choose(job)
    job.time += left


def _pass(job: Running, left: float, batching: Batching) -> float:
    """Up to the end of the epoch or of the time left; the seconds it took."""
    app = job.app
    step, sync = app.step_time(job.placement, job.local)
    batch = job.gpus * job.local * (job.accumulation + 1)
    grad_sqr, grad_var = app.gradients(batch, job.epoch)
    scale = batch / app.first_batch
    gain = (grad_var + grad_sqr) / (grad_var / scale + grad_sqr)
    batching.observe(job, step, sync, grad_sqr, grad_var)
    rate = gain / (step + (step - sync) * job.accumulation)
    milestone = app.milestones[job.epoch + 1]
    if job.progress + rate * left < milestone:
        job.progress += rate * left
        job.time += left
        return left
    taken = round((milestone - job.progress) / rate)
    job.epoch += 1
    job.progress = milestone
    job.time += taken
    if job.epoch == app.epochs:
        job.done_at = job.time
    return taken
