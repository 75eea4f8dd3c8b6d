"""The simulated disk: the reference store with a writer that can be slow, full, or die half-way.

Writes are handed over and committed together when somebody waits for one of them, as the durable stores do,
each control plane's by itself. Between the two a control plane may die: of what was handed over then a first
part lasts, of which nobody ever heard, and the rest is gone.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from grus.model.errors import StoreFailed
from grus.model.interfaces import Event, NewJob, PruneLimits
from grus.model.jobs import Job
from grus.store.memory import MemoryStore

T = TypeVar("T")


class Around(Protocol):
    """Who is told what the disk does, and decides what befalls it."""

    def who(self) -> object:
        """The control plane that acts; None for nobody."""
        ...

    def at_disk(self, place: str) -> None:
        """Something may happen here: time passes, the control plane dies or is stopped for a while."""
        ...

    def committed(
        self, who: object, before: Job | None, job: Job, event: Event | None, epoch: int | None
    ) -> None:
        """A job was written; `who` has handed it over."""
        ...

    def written(self) -> None:
        """A write is done. Who dies now leaves this much."""
        ...

    def pruned(self, gone: Sequence[Job], before: float) -> None:
        """These were removed, as having ended before that time."""
        ...


@dataclass
class Mood:
    """What is wrong with the disk."""

    full: bool = False
    answers_lost: bool = False
    """Writes last, but whoever waits is told that they failed."""


class Handed(Future[T]):
    """A write that is on its way: who asks for its result lets the disk do what it was given."""

    def __init__(self, disk: "SimulatedDisk") -> None:
        super().__init__()
        self._disk = disk

    def result(self, timeout: float | None = None) -> T:
        if not self.done():
            self._disk.commit()
        return super().result(timeout if timeout is not None else 0)


class SimulatedDisk(MemoryStore):
    """One for the life of a history, whoever is the control plane."""

    def __init__(self, around: Around) -> None:
        super().__init__()
        self._around = around
        self._given: list[tuple[object, Callable[[], object], Future[object]]] = []
        self._named: int | None = None
        self._writer: object = None
        """Who has handed over what is being written."""
        self.mood = Mood()

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def every_job(self) -> dict[str, Job]:
        """As committed; to be read only."""
        return self._jobs  # type: ignore[return-value]  # ids are strings

    def _write(self, work: Callable[[], T]) -> "Future[T]":
        self._around.at_disk("before a write")
        handed: Handed[T] = Handed(self)
        self._given.append((self._around.who(), work, handed))  # type: ignore[arg-type]  # kept together with its own future
        self._around.at_disk("after a write was handed over")
        return handed

    def commit(self) -> None:
        """Do what this control plane has handed over (everybody, if none acts), then answer who waits."""
        self._around.at_disk("before a commit")
        who = self._around.who()
        given = [one for one in self._given if who is None or one[0] is who]
        self._given = [one for one in self._given if who is not None and one[0] is not who]
        if self.mood.full:
            for _, _, future in given:
                future.set_exception(StoreFailed("the disk is full"))
            return
        done = [(future, self._do(writer, work)) for writer, work, future in given]
        if given:
            self._around.at_disk("after a commit")
        for future, outcome in done:
            if (error := outcome.exception()) is not None:
                future.set_exception(error)
            elif self.mood.answers_lost:
                future.set_exception(StoreFailed("nobody has answered"))
            else:
                future.set_result(outcome.result())

    @property
    def waits(self) -> bool:
        """Whether something was handed over and not done yet."""
        return bool(self._given)

    def power_off(self, who: object, kept: float) -> None:
        """A control plane is dead: this part of what it handed over lasts, from the first on."""
        given = [one for one in self._given if one[0] is who]
        self._given = [one for one in self._given if one[0] is not who]
        for writer, work, _ in given[: round(kept * len(given))]:
            self._do(writer, work)

    def _do(self, writer: object, work: Callable[[], T]) -> "Future[T]":
        self._writer = writer
        done = super()._write(work)
        self._around.written()
        return done

    def _create(self, new: Sequence[NewJob], epoch: int | None) -> list[Job]:
        self._named = epoch
        return super()._create(new, epoch)

    def _prune(self, limits: PruneLimits) -> int:
        every, before = self._jobs, dict(self._jobs)
        rows = super()._prune(limits)
        left, self._jobs = self._jobs, every  # others look at this very record
        every.clear()
        every.update(left)
        self._around.pruned([job for id_, job in before.items() if id_ not in every], limits.jobs_before)
        return rows

    def _replace(self, job: Job, event: Event | None, epoch: int | None) -> Job:
        self._named = epoch
        return super()._replace(job, event, epoch)

    def _put(self, job: Job, event: Event | None) -> Job:
        before = self._jobs.get(job.id)
        self._around.committed(self._writer, before, job, event, self._named)
        return super()._put(job, event)
