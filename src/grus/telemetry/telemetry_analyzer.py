"""Recognition of activity from telemetry: samples and reports in, tags of workers, GPUs and jobs out.

Holds the necessary data of each subject and job and forgets silent ones; no clock, no I/O, no thread of its
own. One thread at a time may call it; returned values are never changed afterwards, so that other threads may
read them.

A job's GPUs and workers are viewed together: their tags are the job's, with figures of their own, and a GPU
without activity is idle though its job is not. GPUs of an unknown user, or of several jobs, are classified by
themselves; an unused GPU has no tag.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.patterns.workload_classifier import idle_after, judge
from grus.telemetry.job_tracker import Dossier, JobFacts, plain
from grus.telemetry.samples import Batch, Subject
from grus.telemetry.series_window import SubjectState, Track
from grus.telemetry.tag_debounce import StableTag

__all__ = ["EXPIRY", "JobFacts", "Profiler"]

EXPIRY = 600.0
"""Seconds for which a tag is valid after it was reported or renewed; it is renewed at half of that."""
MANY = 100
"""Subjects beyond which each is looked at only every so often, …"""
UNHURRIED = 1.5
"""… in seconds; a change is reported within five in any case."""
FORGOTTEN = 600.0
"""Seconds of silence after which nothing is kept of a subject."""


class Profiler:
    """All that is watched. Costs about 100 kB and a millisecond a second for each subject; see `Track`."""

    def __init__(self, expiry: float = EXPIRY) -> None:
        self._expiry = expiry
        self._tracks: dict[Subject, Track] = {}
        self._jobs: dict[JobId, Dossier] = {}
        self._told: dict[Subject | JobId, StableTag] = {}
        self._known: set[JobId] = set()
        """Jobs that were reported to it; others are known by their samples alone."""
        self._looked: tuple[float, Mapping[Subject, Tag], Mapping[JobId, Tag]] | None = None

    # ------------------------------------------------------------------------------------ what is told

    def take(self, batch: Batch) -> None:
        """Take in samples. Those older than what was taken before are dropped."""
        self._looked = None
        for sample in batch.samples:
            subject = sample.subject
            if subject.device is None and subject.worker is None:
                continue  # whole machines, queues: not part of a job
            track = self._tracks.get(subject)
            if track is None or (track.holder and sample.holder and track.holder != sample.holder):
                # A new user of a GPU gets a new track.
                track = self._tracks[subject] = Track(device=subject.device is not None)
                self._told.pop(subject, None)
            track.take(sample)

    def hear(
        self,
        job: JobId,
        figures: Mapping[str, float],
        at: float,
        worker: WorkerId | None = None,
        saved_at: float | None = None,
    ) -> None:
        """Record a worker's report; `at` is the report's own time, not that of its reading.

        The same report may come again and again. `step`, `total` and, if there is one, `step_seconds` (this
        rank's own time for a step, without waiting for the others) are used; changes of others, or of the
        time of the last save, are evidence against a hang.
        """
        self._looked = None
        self._known.add(job)
        self._jobs.setdefault(job, Dossier()).hear(worker, figures, at, saved_at)

    def known(self, job: JobId, facts: JobFacts) -> None:
        """Record the facts about a job that holds GPUs; call it again at each change. Cheap without a
        change.
        """
        before = self._jobs.get(job)
        if before is not None and before.facts.started_at not in (None, facts.started_at):
            self.forget(job)  # a new attempt starts without the history of the last one
        self._known.add(job)
        dossier = self._jobs.setdefault(job, Dossier())
        gained = facts.devices - dossier.facts.devices
        if facts != dossier.facts:
            dossier.learn(facts)
            self._looked = None
        if gained:
            self._drop(subject for subject in self._tracks if subject.device in gained)

    def forget(self, job: JobId) -> None:
        """The job holds nothing any more: its tags, its workers' and those it gave its GPUs vanish."""
        self._looked = None
        self._known.discard(job)
        dossier = self._jobs.pop(job, None)
        self._told.pop(job, None)
        devices = dossier.facts.devices if dossier is not None else frozenset()
        self._drop(one for one in self._tracks if one.job == job or one.device in devices)

    def _drop(self, subjects: Iterable[Subject]) -> None:
        for subject in list(subjects):
            del self._tracks[subject]
            self._told.pop(subject, None)

    # ------------------------------------------------------------------------------- what is recognised

    def tags(self, now: float) -> Mapping[Subject, Tag]:
        """Return the tags of workers and GPUs that are in use. An unchanged tag equals the one reported
        before.

        (Only `expires` is renewed now and then.) Subjects that have fallen silent have none.
        """
        return self._look(now)[0]

    def jobs(self, now: float) -> Mapping[JobId, Tag]:
        """Return the tags of jobs, from their workers' and GPUs' activity and their own reports."""
        return self._look(now)[1]

    def _look(self, now: float) -> tuple[Mapping[Subject, Tag], Mapping[JobId, Tag]]:
        if self._looked is not None and self._looked[0] == now:
            return self._looked[1:]
        self._tidy(now)
        holders = self._holders()
        refresh = UNHURRIED if len(self._tracks) > MANY else 0.0
        views = {
            one: track.view(now, refresh) for one, track in self._tracks.items() if now < track.silent_after
        }
        own: dict[JobId, dict[Subject, SubjectState]] = {}
        for subject, view in views.items():
            if len(jobs := _jobs_of(subject, holders)) == 1:
                own.setdefault(jobs[0], {})[subject] = view
        of_jobs = {
            job: self._settle(job, self._of_job(job, own.get(job, {}), now), now) for job in self._jobs
        }
        told: dict[Subject, Tag] = {}
        for subject, view in views.items():
            tag = self._of_subject(subject, view, _jobs_of(subject, holders), of_jobs, now)
            if tag is not None:
                told[subject] = tag
            else:
                self._told.pop(subject, None)
        self._looked = (now, told, of_jobs)
        return told, of_jobs

    def _of_job(self, job: JobId, views: Mapping[Subject, SubjectState], now: float) -> Tag:
        dossier = self._jobs[job]
        since = dossier.suspect_since(now)
        beating = since is None or any(
            self._tracks[subject].beats_since(since, view.traits.rhythm.period)
            for subject, view in views.items()
            if view.traits.rhythm is not None
        )
        return dossier.tag(list(views.values()), now, beating=beating)

    def _of_subject(
        self,
        subject: Subject,
        view: SubjectState,
        jobs: list[JobId],
        of_jobs: Mapping[JobId, Tag],
        now: float,
    ) -> Tag | None:
        """Return its part in its job's tag, or a tag of its own unless it has exactly one job; None if it is
        unused.
        """
        if len(jobs) == 1:
            slow = self._jobs[jobs[0]].stragglers.get(subject.worker)
            note = (
                f"a straggler: its steps took {slow:.1f} times the others' time" if slow is not None else ""
            )
            return self._settle(subject, _share(of_jobs[jobs[0]], view, note, now), now, firm=True)
        if not jobs and not self._used(subject, view):
            return None
        return self._settle(subject, plain(judge(view.traits), view, now), now)

    def _tidy(self, now: float) -> None:
        """Forget silent subjects, and unreported jobs without any activity."""
        for subject, track in list(self._tracks.items()):
            if now >= track.silent_after:
                self._told.pop(subject, None)
                if subject.job in self._jobs and subject.worker is not None:
                    self._jobs[subject.job].leave(subject.worker)
            if now >= track.at + FORGOTTEN:
                del self._tracks[subject]
        seen = {subject.job for subject in self._tracks if subject.job is not None}
        for job in [job for job in self._jobs if job not in self._known and job not in seen]:
            self.forget(job)
        for job in seen - self._jobs.keys():
            self._jobs[job] = Dossier()

    def _holders(self) -> dict[DeviceId, list[JobId]]:
        found: dict[DeviceId, list[JobId]] = {}
        for job, dossier in self._jobs.items():
            for device in dossier.facts.devices:
                found.setdefault(device, []).append(job)
        return found

    def _used(self, subject: Subject, view: SubjectState) -> bool:
        """Return whether a GPU that no known job holds is in use."""
        if self._tracks[subject].holder:
            return True
        return view.traits.at_work_for > 0 and view.traits.quiet_for < idle_after(view.traits)

    def _settle(self, key: Subject | JobId, tag: Tag, now: float, *, firm: bool = False) -> Tag:
        return self._told.setdefault(key, StableTag(self._expiry)).offer(tag, now, firm=firm)


def _jobs_of(subject: Subject, holders: Mapping[DeviceId, list[JobId]]) -> list[JobId]:
    if subject.job is not None:
        return [subject.job]
    return holders.get(subject.device, []) if subject.device is not None else []


def _share(job: Tag, view: SubjectState, note: str, now: float) -> Tag:
    """A subject's part in its job: the job's tag with its own figures; idle where nothing happens on it."""
    tag = replace(job, utilisation=view.utilisation, peak_memory=view.peak_memory, note=note)
    quiet = view.traits.quiet_for
    if job.kind is WorkloadKind.IDLE or job.hung_since is not None or quiet < idle_after(view.traits):
        return tag
    idle = replace(tag, kind=WorkloadKind.IDLE, at=now - quiet, confidence=0.9)
    return replace(idle, stage=TrainingStage.UNKNOWN, period=None, boundary=None)
