"""Warm start of telemetry: a starting server reads the last recorded minutes of jobs that kept running
without one.

Without it, each restart would have to classify the running jobs from zero.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from grus.controlplane.workers.worker_launch_spec import members
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.jobs import Job
from grus.telemetry.samples import Batch, Measure, Sample, Subject
from grus.telemetry.tsdb import Recorder

BACK = 900.0
"""Seconds of samples that are replayed."""
MOST = 40_000
"""Samples that are replayed at most, so that no start takes long; with many subjects each has fewer."""


def recalled(recorder: Recorder, jobs: Sequence[Job], now: float) -> Batch:
    """The recorded samples of what these jobs' present workers and GPUs did lately, in the order of time."""
    since = begun(jobs)
    subjects = [one for one in recorder.subjects() if (one.worker or one.device) in since]
    back = min(BACK, MOST * recorder.base.step / 1000 / max(1, len(subjects)))
    found: list[Sample] = []
    for subject in subjects:
        begin = since[subject.worker or subject.device]
        found += _samples(recorder, subject, max(begin, now - back), now)
    return Batch(tuple(sorted(found, key=lambda sample: sample.at)))


def begun(jobs: Iterable[Job]) -> Mapping[WorkerId | DeviceId | None, float]:
    """Return the time since which each worker and each GPU has its present work."""
    found: dict[WorkerId | DeviceId | None, float] = {}
    for job in jobs:
        at = job.started_at or 0.0
        for member in members(job):
            found[member.id] = at
            for seat in member.seats:
                for device in seat.devices:
                    found[device] = max(at, found.get(device, 0.0))
    return found


def _samples(recorder: Recorder, subject: Subject, since: float, until: float) -> list[Sample]:
    at: dict[float, dict[Measure, float]] = {}
    for measure in recorder.measures(subject):
        series = recorder.read(subject, measure, since, until, recorder.base.step / 1000)
        for moment, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
            if since <= moment < until and not math.isnan(value):
                at.setdefault(moment, {})[measure] = value
    return [Sample(subject, moment, values) for moment, values in at.items()]
