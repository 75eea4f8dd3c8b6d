"""One job while it is simulated: how much is done, how fast it goes, what it has cost so far."""

from grus.model.jobs import Job, Seat
from grus.simulator.events.run_results import JobOutcome, Span
from grus.simulator.workload.job_work import TraceJob

NO_WAIT = -1.0


class SimulatedRun:
    """The life of one job. Work is counted in seconds at the size that its duration was measured at."""

    __slots__ = (
        "boots",
        "busy",
        "done",
        "epoch",
        "faults",
        "gpus",
        "gpus_since",
        "held",
        "job",
        "kept",
        "lost",
        "most_run",
        "pauses",
        "rate",
        "resizes",
        "saved",
        "since",
        "spans",
        "waited",
        "waiting_since",
        "work",
        "worked",
    )

    def __init__(self, work: TraceJob, job: Job, done: float = 0.0) -> None:
        self.work = work
        self.job = job
        self.done = done
        """Seconds of its work that are done, as of `since`."""
        self.saved = done
        """The part of it that would survive a kill."""
        self.rate = 0.0
        self.busy = 0.0
        """GPUs that do the work at this rate."""
        self.worked = 0.0
        """GPU-seconds in which work was done, as of `since`."""
        self.kept = 0.0
        """The part of them whose work would survive a kill."""
        self.since = 0.0
        """Time since which it works at `rate`; in the future while it boots or stalls."""
        self.epoch = 0
        """Counts changes of speed: what was foreseen before the last one will not happen."""
        self.boots: dict[int, float] = {}
        """Times at which the placements born in each rendezvous round of the present attempt begin to
        work.
        """
        self.gpus = 0.0
        self.gpus_since = 0.0
        self.held = 0.0
        self.waited = 0.0
        self.waiting_since = NO_WAIT
        self.lost = 0.0
        self.most_run = 0
        """The largest number of GPUs that it has worked on."""
        self.pauses = 0
        self.resizes = 0
        self.faults = 0
        self.spans: list[Span] | None = None

    def catch_up(self, now: float) -> None:
        """Count what it did up to now."""
        if now > self.since:
            if self.rate:
                self.done = min(self.work.duration, self.done + (now - self.since) * self.rate)
                self.worked += (now - self.since) * self.busy
            self.since = now

    def save(self) -> None:
        """Save all work up to now, so that it survives a kill."""
        self.saved = self.done
        self.kept = self.worked

    def fall_back(self) -> None:
        """Lose what was not saved."""
        self.lost += self.worked - self.kept
        self.done = self.saved
        self.worked = self.kept

    def ends_at(self) -> float:
        return self.since + (self.work.duration - self.done) / self.rate

    def working(self, now: float) -> tuple[Seat, ...]:
        """Return the placements of the present rendezvous round that have booted."""
        return tuple(seat for seat in self.job.staying if self.boots.get(seat.born, 0.0) <= now)

    def hold(self, gpus: float, now: float) -> None:
        """Record that it holds so many GPUs from now on; the last span of time is closed and counted."""
        if self.gpus and now > self.gpus_since:
            self.held += (now - self.gpus_since) * self.gpus
            if self.spans is not None:
                self.spans.append(Span(self.gpus_since, now, self.gpus))
        self.gpus, self.gpus_since = gpus, now

    def wait(self, now: float) -> None:
        self.waiting_since = now

    def wait_no_more(self, now: float) -> None:
        if self.waiting_since != NO_WAIT:
            self.waited += now - self.waiting_since
            self.waiting_since = NO_WAIT

    def record(self, now: float) -> JobOutcome:
        """Return its results when it has ended, or when nothing more can happen."""
        self.hold(0.0, now)
        self.wait_no_more(now)
        done = self.job.terminal
        if done:
            self.save()
        return JobOutcome(
            work=self.work,
            started=self.job.first_started_at,
            ended=now if done else None,
            waited=self.waited,
            held=self.held,
            useful=min(self.kept, self.saved * self.work.gpus),
            lost=self.lost,
            pauses=self.pauses,
            resizes=self.resizes,
            faults=self.faults,
            spans=tuple(self.spans or ()),
        )


def gpus_of(seats: tuple[Seat, ...]) -> float:
    """Return the GPUs of these placements; whole numbers are exact."""
    return sum(seat.held for seat in seats) / 1_000_000
