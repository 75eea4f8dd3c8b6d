"""Idle and hung jobs. Pure: job + tag + policy + now → new job and event, or None.

A job is idle if its GPUs have been unused for as long as its policy says. A job between two epochs, or one
that starts, evaluates, saves (see its tag) or hangs, is not idle. A job is warned before it is paused. A hung
job is marked and never ended: only its owner knows what its processes still hold. Without reliable
measurements nothing is done.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from grus.controlplane.jobs.lifecycle import JobChange, change, ending
from grus.controlplane.jobs.user_actions import LOST, saving_words
from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import Desired, Idle, Job, JobType, PauseCause, Phase
from grus.model.queues import Queue, gpus
from grus.model.resources import GPU
from grus.model.texts.units import render_percent, render_seconds

WARNING = 300.0
"""Seconds from the warning to the pause; half of the policy's time where that is shorter."""
HANGS = "hangs: "
"""Prefix of the reason of a job that was reported as hung."""
BUSY = frozenset({TrainingStage.START_UP, TrainingStage.EVALUATION, TrainingStage.CHECKPOINT})
"""Stages in which a job may use no GPU and is not idle."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Idle policy: the action on idle GPUs, and the queue that defines it."""

    idle: Idle
    queue: QueueName | None = None
    """The queue whose policy it is; None for the job's own."""

    @property
    def name(self) -> str:
        return "its idle policy" if self.queue is None else f"the idle policy of queue {self.queue}"


@dataclass(frozen=True, slots=True)
class IdlePeriod:
    """A time in which a job's GPUs idle, as one policy sees it."""

    since: float
    told_at: float | None = None
    """When its owner was warned, or notified."""


def policies(job: Job, queues: Mapping[QueueName, Queue]) -> tuple[Policy, ...]:
    """Return all policies that apply: the job's own, its queue's, those of the queues above. The first that
    is due acts.
    """
    found = [] if job.spec.idle is None else [Policy(job.spec.idle)]
    queue = queues.get(job.spec.queue)
    while queue is not None:
        found += [] if queue.idle is None else [Policy(queue.idle, queue.name)]
        queue = queues.get(queue.parent) if queue.parent is not None else None
    return tuple(found)


def idles(tag: Tag, below: float) -> bool:
    """Return whether the GPUs are idle: less than `below` of them is used, without a good reason."""
    if (
        tag.hung_since is not None
        or tag.stage in BUSY
        or tag.kind in (WorkloadKind.TRAINING, WorkloadKind.RETRAINING)
    ):
        return False
    if tag.utilisation is None:
        return tag.kind is WorkloadKind.IDLE
    return tag.utilisation < below


def spell(
    known: IdlePeriod | None, tag: Tag | None, idle: Idle, now: float, used_at: float | None = None
) -> IdlePeriod | None:
    """Return the idle spell as it continues, begins, or ends (None); `used_at` is the last time that a user
    worked in a session.
    """
    if tag is None or not tag.live(now) or not idles(tag, idle.below):
        return None
    found = known or IdlePeriod(min(tag.at, now) if tag.kind is WorkloadKind.IDLE else now)
    if used_at is None or used_at <= found.since:
        return found
    return IdlePeriod(min(used_at, now)) if found.told_at is None else None


def act(job: Job, policy: Policy, now_idle: IdlePeriod, tag: Tag, now: float) -> JobChange | None:
    """Warn, notify or pause; None while it is not time, or nothing is left to do."""
    idle = policy.idle
    due = now_idle.since + idle.seconds
    pauses = idle.action == "pause"
    lead = min(WARNING, idle.seconds / 2) if pauses else 0.0
    if now_idle.told_at is None:
        return _tell(job, policy, now_idle, tag, now, lead) if now >= due - lead else None
    if not pauses or now < max(due, now_idle.told_at + lead):
        return None
    text = f"paused by {policy.name}: {_use(job, tag)} for {render_seconds(round(now - now_idle.since))}"
    if _is_session(job):
        text += f"; {LOST}"
    paused = replace(job, desired=Desired.PAUSE, paused_by=PauseCause.IDLE, phase=Phase.PAUSING)
    words = text if _is_session(job) else f"{text}; {saving_words(job, now)}"
    return change(paused, "pausing", now, words, reason=text)


def _tell(job: Job, policy: Policy, since: IdlePeriod, tag: Tag, now: float, lead: float) -> JobChange:
    text = f"idle: {_use(job, tag)} for {render_seconds(round(now - since.since))}; "
    if lead:
        unless = f"it is used: save your work, {LOST}" if _is_session(job) else "it uses them"
        text += f"{policy.name} pauses it in {render_seconds(round(lead))} unless {unless}"
    else:
        text += f"`grus pause {job.id}` gives them back until `grus resume`, `grus stop {job.id}` for good"
    return change(job, "idle", now, text, reason=job.reason)


def _use(job: Job, tag: Tag) -> str:
    used = "nothing" if not tag.utilisation else render_percent(round(tag.utilisation, 3))
    alone = " and nobody at work in it" if _is_session(job) else ""
    return f"{used} of its {gpus(job.held)} GPU{'' if job.held <= GPU else 's'} used{alone}"


def _is_session(job: Job) -> bool:
    return job.spec.type is JobType.DEV


def hang(job: Job, tag: Tag | None, now: float) -> JobChange | None:
    """Report once that it hangs, and once that it no longer does."""
    if tag is None or not tag.live(now):
        return None
    told = job.reason.startswith(HANGS)
    if tag.hung_since is not None and not told:
        note = f" ({tag.note.removeprefix(HANGS)})" if tag.note else ""
        text = f"{HANGS}no progress for {render_seconds(round(now - tag.hung_since))}{note}"
        advice = f"it is not ended: see `grus logs {job.id}`, and `grus stop {job.id}` if it is lost"
        return change(job, "hung", now, f"{text}; {advice}", reason=text)
    if tag.hung_since is None and told:
        return change(job, "recovered", now, "it makes progress again")
    return None


Spells = dict[tuple[JobId, QueueName | None], IdlePeriod]


class Idleness:
    """Idle spells and hang reports remembered between two checks. Lives as long as the loop."""

    def __init__(self) -> None:
        self._spells: Spells = {}

    def look(
        self,
        jobs: Iterable[Job],
        tags: Mapping[JobId, Tag],
        policies: Callable[[Job], tuple[Policy, ...]],
        now: float,
        used_at: Callable[[Job], float | None] = lambda _: None,
    ) -> list[JobChange]:
        """Return the due reports and actions, at most one change per job; `used_at` returns the last use of a
        session.
        """
        before, self._spells = self._spells, {}
        changes = []
        for job in jobs:
            if job.phase is not Phase.RUNNING or job.desired is not Desired.RUN or ending(job):
                continue
            found = self._of_job(job, tags.get(job.id), policies(job), before, now, used_at(job))
            changes += [] if found is None else [found]
        return changes

    def _of_job(
        self,
        job: Job,
        tag: Tag | None,
        policies: tuple[Policy, ...],
        before: Spells,
        now: float,
        used_at: float | None,
    ) -> JobChange | None:
        found = hang(job, tag, now)
        for policy in policies:
            key = (job.id, policy.queue)
            idle = spell(before.get(key), tag, policy.idle, now, used_at)
            if idle is None or tag is None:
                found = found or _again_busy(job, tag, before.get(key), now)
                continue
            said = act(job, policy, idle, tag, now) if found is None else None  # one at a time
            if said is not None and idle.told_at is None:
                idle = replace(idle, told_at=now)
            self._spells[key] = idle
            found = found or said
        return found


def _again_busy(job: Job, tag: Tag | None, before: IdlePeriod | None, now: float) -> JobChange | None:
    if tag is None or before is None or before.told_at is None:
        return None
    text = "it is used again" if _is_session(job) else "it uses its GPUs again"
    return change(job, "busy", now, text, reason=job.reason)


def nearly_over(job: Job, longest: float | None, now: float) -> JobChange | None:
    """Report once, some minutes before, that a session's time limit is near."""
    if longest is None or job.started_at is None or not _is_session(job) or job.phase is not Phase.RUNNING:
        return None
    left = job.started_at + longest - now
    if not 0 < left <= min(WARNING, longest / 2):
        return None
    text = f"its time of {render_seconds(round(longest))} is up in {render_seconds(max(1, round(left)))}"
    return change(job, "limit", now, f"{text}: save your work, {LOST}", reason=job.reason)
