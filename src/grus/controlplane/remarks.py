"""What was recognised of a job and what follows from it, as sentences for `why` and `describe`.

`Remarks` gathers what is known of a job, for any thread; the sentences are pure functions of that.
"""

from collections.abc import Iterator

from grus.api.job_out import request_text
from grus.api.units import render_bytes_short, render_percent, render_seconds
from grus.api.warnings import apart
from grus.controlplane.loop import ControlLoop
from grus.controlplane.right_sizing import advice
from grus.controlplane.watching import Watching
from grus.model.identifiers import DeviceId
from grus.model.jobs import HOLDING, Job, PauseCause, Phase
from grus.model.tags import Kind, Stage, Tag
from grus.scheduling.explain import about_to_leave


class Remarks:
    """See the head of this file. Without `watching` little is known of single GPUs."""

    def __init__(self, loop: ControlLoop, watching: Watching | None = None) -> None:
        self._loop = loop
        self._watching = watching

    def of(self, job: Job, now: float) -> tuple[str, ...]:
        """All that there is to say, the most pressing first."""
        return tuple(text for text in self._all(job, now) if text)

    def _all(self, job: Job, now: float) -> Iterator[str]:
        yield paused(job)
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
        """Mean utilisation of each of the GPUs, as far as it is measured."""
        tags = {} if self._watching is None else self._watching.tags(now)
        return [
            tag.utilisation
            for subject, tag in tags.items()
            if subject.device in held and not subject.instance and tag.utilisation is not None
        ]


# ---------------------------------------------------------------------------------------------- sentences


def paused(job: Job) -> str:
    """Why the scheduler paused it; what it waits for now is another question."""
    if job.phase is not Phase.PAUSED or job.paused_by is not PauseCause.SCHEDULER or not job.reason:
        return ""
    return f"it was paused because {job.reason}"


def sized(job: Job) -> str:
    """What it takes instead of what was asked for, and why; of one that has failed its reason says it."""
    if job.sizing is None or not job.sizing.why or job.phase is Phase.FAILED:
        return ""
    return f"asked for `gpu: {request_text(job.asked)}`, it takes {job.sizing.why}"


def recognised(tag: Tag | None, now: float) -> str:
    """What its telemetry says that it does; "" where nobody knows."""
    if tag is None or not tag.live(now) or (tag.kind is Kind.UNKNOWN and not tag.note):
        return ""
    if tag.kind is Kind.UNKNOWN:
        return f"not recognised: {tag.note}"
    facts = []
    if tag.period is not None:
        facts.append(f"a period of {_rounded(tag.period)}")
    if tag.stage is not Stage.UNKNOWN:
        facts.append(f"in {tag.stage.value}")
    if tag.utilisation is not None:
        facts.append(f"{render_percent(round(tag.utilisation, 2))} of its GPUs used")
    if tag.peak_memory is not None:
        facts.append(f"at most {render_bytes_short(tag.peak_memory)} on one")
    note = f" ({tag.note})" if tag.note else ""
    return f"recognised as {tag.kind.value}" + (": " if facts else "") + ", ".join(facts) + note


def _rounded(seconds: float) -> str:
    """To three figures or so: nobody reads more of a period."""
    return render_seconds(round(seconds, 1) if seconds < 100 else round(seconds))
