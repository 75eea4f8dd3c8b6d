"""A profiler that is fed second by second: jobs on GPUs whose activity is a function of time."""

from collections.abc import Callable
from dataclasses import dataclass, field

from grus.model.activity_labels import Tag
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.telemetry.samples import Batch, Measure, Sample, Subject
from grus.telemetry.telemetry_analyzer import JobFacts, Profiler

JOB = JobId("j1")
NODE = NodeId("n1")
Course = Callable[[float], float]


def epochs(period: float, work: float = 0.7, high: float = 0.9, low: float = 0.1) -> Course:
    return lambda at: high if at % period < work * period else low


def gpu(name: str = "g0") -> Subject:
    return Subject(NODE, DeviceId(name))


def worker(name: str = "w0", job: JobId = JOB) -> Subject:
    return Subject(NODE, job=job, worker=WorkerId(name))


@dataclass
class Watched:
    """Time begins at 1000; every second each subject has a sample, and the profiler is asked."""

    profiler: Profiler = field(default_factory=Profiler)
    now: float = 1000.0
    told: list[tuple[float, Tag]] = field(default_factory=list)
    """Every change of the tag of `JOB`, and when."""

    def known(self, *devices: str, job: JobId = JOB, **facts: object) -> None:
        held = frozenset(DeviceId(name) for name in devices)
        self.profiler.known(job, JobFacts(devices=held, **facts))  # type: ignore[arg-type]  # the fields of Known

    def go(
        self,
        seconds: float,
        *subjects: Subject,
        busy: Course | float = 0.9,
        memory: float = 1e9,
        more: dict[Measure, Course] | None = None,
        steps: Course | None = None,
    ) -> None:
        """Let time pass; `steps` is what the job reports as its step."""
        for _ in range(int(seconds)):
            self.now += 1.0
            values = {Measure.UTILISATION: busy(self.now) if callable(busy) else busy, Measure.MEMORY: memory}
            values |= {measure: course(self.now) for measure, course in (more or {}).items()}
            self.profiler.take(Batch(tuple(Sample(one, self.now, values) for one in subjects)))
            if steps is not None:
                self.profiler.hear(JOB, {"step": steps(self.now)}, self.now, WorkerId("w0"))
            self._look()

    def _look(self) -> None:
        tag = self.profiler.jobs(self.now).get(JOB)
        if tag is not None and (not self.told or self.told[-1][1] != tag):
            self.told.append((self.now, tag))

    @property
    def tag(self) -> Tag:
        return self.profiler.jobs(self.now)[JOB]

    def of(self, subject: Subject) -> Tag | None:
        return self.profiler.tags(self.now).get(subject)

    def kinds(self) -> list[str]:
        """The kinds that were told, in their order."""
        found: list[str] = []
        for _, tag in self.told:
            if not found or found[-1] != tag.kind.value:
                found.append(tag.kind.value)
        return found


def course(*parts: tuple[float, Course | float], start: float = 1000.0) -> Course:
    """One after the other, each from its moment (seconds after the start) on."""

    def at(moment: float) -> float:
        now = [part for begin, part in parts if moment >= start + begin][-1]
        return now(moment) if callable(now) else now

    return at


def counted(every: float, until: float = float("inf"), start: float = 1000.0) -> Course:
    """A step each so many seconds, until that moment (seconds after the start)."""
    return lambda at: float(int((min(at, start + until) - start) / every))
