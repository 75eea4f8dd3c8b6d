"""Recognized facts about a job and their consequences, as sentences for `why` and `describe`.

`Remarks` gathers the facts about a job, for any thread; the sentences are pure functions of them.
"""

from collections.abc import Iterable, Iterator

from grus.controlplane.gpu_sizing.rightsizing_advisor import advice
from grus.controlplane.monitoring.telemetry_collector import Watching
from grus.controlplane.reconciler.loop import ControlLoop
from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import DeviceId
from grus.model.jobs import HOLDING, Job, PauseCause, Phase
from grus.model.nodes import Node
from grus.model.texts.job_text import request_text
from grus.model.texts.job_warnings import apart
from grus.model.texts.units import render_bytes_short, render_percent, render_seconds
from grus.scheduler.explain import about_to_leave


class Remarks:
    """Gathers the facts about a job; see the head of this file. Without `watching` little is known about
    single GPUs.
    """

    def __init__(self, loop: ControlLoop, watching: Watching | None = None) -> None:
        self._loop = loop
        self._watching = watching

    def of(self, job: Job, now: float) -> tuple[str, ...]:
        """Return all remarks, the most pressing first."""
        return tuple(text for text in self._all(job, now) if text)

    def _all(self, job: Job, now: float) -> Iterator[str]:
        yield paused(job)
        yield drained(job, self._loop.picture.nodes)
        yield apart(job, now)
        yield sized(job)
        tag = self._loop.tags(now).get(job.id)
        if job.phase not in HOLDING or tag is None:
            return
        with self._loop.snapshot() as snapshot:
            if snapshot.job(job.id) is not None:
                yield about_to_leave(snapshot, job.id, now)
        yield recognised(tag, now)
        yield self._advice(job, tag, now)

    def _advice(self, job: Job, tag: Tag, now: float) -> str:
        held = {device for seat in job.staying for device in seat.devices}
        devices = [one for node in self._loop.picture.nodes for one in node.devices if one.id in held]
        types = {device.type for device in devices}
        profile = self._loop.picture.profile(job)
        speeds = () if profile is None else profile.speeds
        return advice(
            job,
            tag,
            now,
            used=self._used(held, now),
            speeds=[one for one in speeds if types == {one.type}],
            memory=min((device.memory for device in devices), default=None),
        )

    def _used(self, held: set[DeviceId], now: float) -> list[float]:
        """Return the mean utilization of each of the GPUs, as far as it is measured."""
        tags = {} if self._watching is None else self._watching.tags(now)
        return [
            tag.utilisation
            for subject, tag in tags.items()
            if subject.device in held and not subject.instance and tag.utilisation is not None
        ]


# ---------------------------------------------------------------------------------------------- sentences


def paused(job: Job) -> str:
    """Explain why the scheduler paused it; its present wait is a separate question."""
    if job.phase is not Phase.PAUSED or job.paused_by is not PauseCause.SCHEDULER or not job.reason:
        return ""
    return f"it was paused because {job.reason}"


def drained(job: Job, nodes: Iterable[Node]) -> str:
    """Name the drained nodes that matter to it: one that it runs on, or all that it might have started on."""
    if job.terminal:
        return ""
    own = {seat.node for seat in job.seats}
    found = [node for node in nodes if node.drain is not None and (not own or node.id in own)]
    words = ", ".join(
        f"{one.id} ({one.drain.message})" if one.drain and one.drain.message else one.id for one in found
    )
    if not found:
        return ""
    if not own:
        return f"nodes that are being drained take no new work: {words}"
    return f"it runs on a node that is being drained: {words}"


def sized(job: Job) -> str:
    """Describe the job's size if it differs from the requested one, and the reason; for a failed job, its
    reason says it.
    """
    if job.sizing is None or not job.sizing.why or job.phase is Phase.FAILED:
        return ""
    return f"asked for `gpu: {request_text(job.asked)}`, it takes {job.sizing.why}"


def recognised(tag: Tag | None, now: float) -> str:
    """Describe the job's activity as shown by its telemetry; "" if it is unknown."""
    if tag is None or not tag.live(now) or (tag.kind is WorkloadKind.UNKNOWN and not tag.note):
        return ""
    if tag.kind is WorkloadKind.UNKNOWN:
        return f"not recognised: {tag.note}"
    facts = []
    if tag.period is not None:
        facts.append(f"a period of {_rounded(tag.period)}")
    if tag.stage is not TrainingStage.UNKNOWN:
        facts.append(f"in {tag.stage.value}")
    if tag.utilisation is not None:
        facts.append(f"{render_percent(round(tag.utilisation, 2))} of its GPUs used")
    if tag.peak_memory is not None:
        facts.append(f"at most {render_bytes_short(tag.peak_memory)} on one")
    note = f" ({tag.note})" if tag.note else ""
    return f"recognised as {tag.kind.value}" + (": " if facts else "") + ", ".join(facts) + note


def _rounded(seconds: float) -> str:
    """Round to about three digits: more digits of a period are not useful."""
    return render_seconds(round(seconds, 1) if seconds < 100 else round(seconds))
