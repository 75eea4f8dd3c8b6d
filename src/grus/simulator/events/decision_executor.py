"""Effects of decisions and of time on jobs: the simulated control plane and engine.

A rigid job is reported as running as soon as it is started: no decision on it depends on the difference, and
it saves an event. Nothing here decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from grus.model.identifiers import DeviceId, JobId, NodeId
from grus.model.jobs import FIRST_BACK_OFF, PauseCause, Phase, Resizing, Seat, Spec, worker_per_seat
from grus.model.nodes import Health, Node
from grus.scheduler.decisions import Decision, Pause, Requeue, Resize, Share, Start, new_seats, with_share
from grus.scheduler.state.gpu_footprint import predicted
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.events.event_queue import Agenda, ScheduledEvent, SimulationEventKind
from grus.simulator.events.job_progress import SimulatedRun, gpus_of
from grus.simulator.events.job_reports import outlook
from grus.simulator.events.run_results import JobOutcome
from grus.simulator.workload.job_work import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of changes, in seconds, and speeds of the types of GPU."""

    start: float = 10.0
    """Seconds from the start, the resume, or the gift of more GPUs, until these do work."""
    pause: float = 5.0
    """Seconds to save and to leave. Beyond its grace period a job is killed and loses its work since the last
    save.
    """
    resize: float = 1.0
    """Stall of those who stay when others join or leave."""
    leave: float = 1.0
    """Seconds until a worker that was given back is confirmed gone."""
    report: float = 60.0
    """Between two reports of a job."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed by GPU type, relative to that of the trace; 1 for types that are not named. A gang is as fast as
    its slowest GPU."""


class Effects:
    """Carries out what is decided and what is due, job by job."""

    def __init__(self, snapshot: Snapshot, nodes: Iterable[Node], costs: Costs, *, spans: bool) -> None:
        self.snapshot = snapshot
        self.costs = costs
        self.agenda = Agenda()
        self.runs: dict[JobId, SimulatedRun] = {}
        """Jobs that have come and not ended."""
        self.ended: list[JobOutcome] = []
        self.waiting = 0
        """Number of jobs that wait for GPUs."""
        self.elastic = 0
        """Number of jobs that can use a range of GPUs."""
        self._nodes = {node.id: node for node in nodes}
        self._broken: dict[NodeId, int] = {}
        """Number of faults that keep each node down."""
        self._spans = spans
        self._speed_of = self._slow_devices()
        self._type_of = {device.id: device.type for node in self._nodes.values() for device in node.devices}

    def _slow_devices(self) -> dict[DeviceId, float]:
        speeds = self.costs.speeds
        return {
            device.id: speeds[device.type]
            for node in self._nodes.values()
            for device in node.devices
            if speeds.get(device.type, 1.0) != 1.0
        }

    # --------------------------------------------------------------------------------------- beginnings

    def arrive(self, work: TraceJob, now: float) -> None:
        self._enter(SimulatedRun(work, work.job()), now)

    def _add(self, run: SimulatedRun) -> None:
        self.runs[run.job.id] = run
        self.elastic += run.work.size is not None
        if self._spans:
            run.spans = []

    def _enter(self, run: SimulatedRun, now: float) -> None:
        self._add(run)
        run.wait(now)
        self.waiting += 1
        self.snapshot.put(run.job)
        self.snapshot.gauge(run.job.id, run.work.footprint)
        self._tell(run)

    def take_over(self, run: SimulatedRun, now: float) -> None:
        """Add a job that was there before the simulation: it continues from its present phase."""
        job = run.job
        if not job.seats:
            return self._enter(run, now)
        self._add(run)
        self.snapshot.put(job)
        self.snapshot.gauge(job.id, run.work.footprint)
        run.hold(gpus_of(job.seats), now)
        if job.phase is Phase.PAUSING:
            self.agenda.push(now + self.costs.pause, SimulationEventKind.PAUSED, run, run.epoch)
            return None
        if leaving := tuple(seat for seat in job.seats if seat.leaving):
            self.agenda.push(now + self.costs.leave, SimulationEventKind.LEFT, run, (job.attempt, leaving))
        boot = self.costs.start if job.phase is Phase.STARTING else 0.0
        if job.phase is Phase.STARTING:
            self.agenda.push(now + boot, SimulationEventKind.READY, run, job.attempt)
        return self._work(run, job.staying, now + boot)

    def nothing_to_decide(self) -> bool:
        """Return whether no job waits, could grow, or is on a lost device: any decision would be to do
        nothing.
        """
        return not (self.waiting or self.elastic or self.snapshot.broken or self.snapshot.packed)

    # ---------------------------------------------------------------------------------------- decisions

    def carry_out(self, action: Decision, now: float) -> None:
        run = self.runs[action.job]
        if isinstance(action, Start):
            self._start(run, action, now)
        elif isinstance(action, Pause):
            self._pause(run, action, now)
        elif isinstance(action, Resize):
            self._resize(run, action, now)
        elif isinstance(action, Share):
            self._share(run, action, now)
        else:
            self._requeue(run, action, now)

    def _start(self, run: SimulatedRun, action: Start, now: float) -> None:
        job, elastic = run.job, run.work.size is not None
        run.job = replace(
            job,
            phase=Phase.STARTING if elastic else Phase.RUNNING,
            attempt=job.attempt + 1,
            generation=1,
            seats=action.seats,
            started_at=now,
            first_started_at=now if job.first_started_at is None else job.first_started_at,
            paused_by=None,
            made_room_for=None,
            backfill_until=action.backfill_until,
            guest_of=action.guest_of,
            not_before=0.0,
        )
        self.snapshot.put(run.job)
        run.wait_no_more(now)
        self.waiting -= 1
        if self._tells(run):
            self.agenda.push(
                now + self.costs.start + self.costs.report, SimulationEventKind.TOLD, run, run.job.attempt
            )
        run.hold(gpus_of(action.seats), now)
        ready = now + self.costs.start
        run.boots = {1: ready}
        self._work(run, action.seats, ready)
        if action.guest_of is not None:
            self._now_beside(self._sharer(run), now)
        if elastic:
            self.agenda.push(ready, SimulationEventKind.READY, run, run.job.attempt)
        if run.work.save_every is not None:
            self.agenda.push(ready + run.work.save_every, SimulationEventKind.SAVED, run, run.job.attempt)

    def _work(self, run: SimulatedRun, seats: tuple[Seat, ...], since: float) -> None:
        """Let it work with these placements from `since` on; schedule its end."""
        run.busy = gpus_of(seats)
        run.most_run = max(run.most_run, int(run.busy))
        run.rate = run.work.rate(run.busy) * self._speed(run.work, seats) * self._beside(run)
        run.since = since
        run.epoch += 1
        self.agenda.push(run.ends_at(), SimulationEventKind.END, run, run.epoch)

    def _beside(self, run: SimulatedRun) -> float:
        """Its speed beside the one that it shares a GPU with, relative to having it alone."""
        other = self._sharer(run)
        one = run.work.footprint
        if one is None or other is None or other.work.footprint is None:
            return 1.0
        gain = one.measured(other.work.footprint)
        return min(1.0, (predicted(one, other.work.footprint) if gain is None else gain) / 2)

    def _sharer(self, run: SimulatedRun) -> SimulatedRun | None:
        """The one that shares a GPU with it."""
        devices = {device for seat in run.job.seats for device in seat.devices}
        for id_, entry in self.snapshot.packed.items():
            if id_ != run.job.id and entry.job.seats[0].devices[0] in devices:
                return self.runs.get(id_)
        return None

    def _now_beside(self, other: SimulatedRun | None, now: float) -> None:
        """Somebody has come to share its GPU, or has left it."""
        if other is not None and other.rate:
            other.catch_up(now)
            self._work(other, other.job.staying, other.since)

    def _share(self, run: SimulatedRun, action: Share, now: float) -> None:
        run.catch_up(now)
        run.job = with_share(run.job, action.share)
        self.snapshot.put(run.job)
        run.hold(gpus_of(run.job.seats), now)
        self._work(run, run.job.staying, run.since)

    def _speed(self, work: TraceJob, seats: tuple[Seat, ...]) -> float:
        """A gang is as fast as its slowest GPU."""
        devices = [device for seat in seats for device in seat.devices]
        if work.types:
            own = dict(work.types)
            return min(own.get(self._type_of[d], self._speed_of.get(d, 1.0)) for d in devices)
        if not self._speed_of:
            return 1.0
        return min(self._speed_of.get(device, 1.0) for device in devices)

    def _pause(self, run: SimulatedRun, action: Pause, now: float) -> None:
        run.catch_up(now)
        other = self._sharer(run)
        run.epoch += 1
        run.rate = 0.0
        run.pauses += 1
        grace = run.work.grace
        if self.costs.pause <= grace:
            run.save()
        else:
            run.fall_back()
        run.job = replace(
            run.job,
            phase=Phase.PAUSING,
            paused_by=PauseCause.SCHEDULER,
            made_room_for=action.preemptor,
        )
        self.snapshot.put(run.job)
        self._now_beside(other, now)
        self.agenda.push(now + min(self.costs.pause, grace), SimulationEventKind.PAUSED, run, run.epoch)

    def _resize(self, run: SimulatedRun, action: Resize, now: float) -> None:
        if _restarts(run.job.spec):  # It saves and starts again with others.
            return self._pause(run, Pause(action.job, action.reason, action.preemptor), now)
        run.catch_up(now)
        generation = run.job.generation + 1
        run.job = replace(
            run.job,
            seats=new_seats(run.job, action.seats, generation),
            generation=generation,
            team_at=now,
            made_room_for=action.preemptor,
        )
        self.snapshot.put(run.job)
        run.resizes += 1
        run.hold(gpus_of(run.job.seats), now)
        leaving = tuple(seat for seat in run.job.seats if seat.leaving)
        if leaving:
            self.agenda.push(
                now + self.costs.leave, SimulationEventKind.LEFT, run, (run.job.attempt, leaving)
            )
        staying = run.job.staying
        if any(seat.born == generation for seat in staying):
            run.boots[generation] = now + self.costs.start
            self.agenda.push(now + self.costs.start, SimulationEventKind.JOINED, run, run.job.attempt)
        if working := run.working(now):
            self._work(run, working, max(run.since, now + (self.costs.resize if leaving else 0.0)))
        else:  # It was moved, or is still booting.
            self._work(run, staying, max(run.boots.get(seat.born, now) for seat in staying))
        return None

    def _requeue(self, run: SimulatedRun, action: Requeue, now: float) -> None:  # noqa: ARG002 - its reason is not needed
        run.catch_up(now)
        run.fall_back()
        run.epoch += 1
        run.rate = 0.0
        run.faults += 1
        leaving = tuple(replace(seat, leaving=True) for seat in run.job.seats)
        run.job = replace(run.job, seats=leaving)
        self.snapshot.put(run.job)
        self.agenda.push(now + self.costs.leave, SimulationEventKind.LEFT, run, (run.job.attempt, leaving))

    def _tells(self, run: SimulatedRun) -> bool:
        work = run.work
        teaches = work.size is not None or bool(work.types)
        return (work.reports and teaches) or self.snapshot.policy.oracle

    def _tell(self, run: SimulatedRun) -> bool:
        """Let the scheduler know how fast the job is and how far; whether that was news."""
        if not self._tells(run):
            return False
        restart = self.costs.pause + self.costs.start
        cost = (restart, 0.0) if _restarts(run.job.spec) else (self.costs.resize, self.costs.start)
        found = outlook(run, *cost)
        news = found.is_news_to(self.snapshot.outlooks.get(run.job.id))
        if news:
            self.snapshot.expect(run.job.id, found)
        return news

    def _told(self, run: SimulatedRun, now: float) -> bool:
        run.catch_up(now)
        run.hold(run.gpus, now)
        self.agenda.push(now + self.costs.report, SimulationEventKind.TOLD, run, run.job.attempt)
        return self._tell(run)

    def _wait_again(self, run: SimulatedRun, now: float) -> None:
        run.hold(0.0, now)
        run.wait(now)
        self.waiting += 1

    # ------------------------------------------------------------------------------- what is due by itself

    def happen(self, due: ScheduledEvent, now: float) -> bool:
        """Let it happen, if it still does; whether the scheduler should be asked."""
        run = due.run
        if run is None:
            assert isinstance(due.token, str)
            return self._set_health(NodeId(due.token), 1 if due.kind is SimulationEventKind.BREAK else -1)
        if due.kind is SimulationEventKind.END:
            return due.token == run.epoch and self._end(run, now)
        if due.kind is SimulationEventKind.PAUSED:
            return due.token == run.epoch and self._paused(run, now)
        if due.kind is SimulationEventKind.LEFT:
            return self._left(run, due.token, now)
        if due.token != run.job.attempt or run.rate == 0.0:
            return False  # An event of an attempt that is over or being paused.
        if due.kind is SimulationEventKind.READY:
            return self._ready(run)
        if due.kind is SimulationEventKind.TOLD:
            return self._told(run, now)
        return self._joined(run, now) if due.kind is SimulationEventKind.JOINED else self._saved(run, now)

    def _end(self, run: SimulatedRun, now: float) -> bool:
        run.catch_up(now)
        other = self._sharer(run)
        run.rate = 0.0
        run.job = replace(run.job, phase=Phase.SUCCEEDED, seats=(), ended_at=now)
        self.snapshot.put(run.job)
        self._now_beside(other, now)
        del self.runs[run.job.id]
        self.elastic -= run.work.size is not None
        self.ended.append(run.record(now))
        return True

    def _paused(self, run: SimulatedRun, now: float) -> bool:
        run.job = replace(run.job, phase=Phase.PAUSED, seats=(), saved_at=now, backfill_until=None)
        self.snapshot.put(run.job)
        self._wait_again(run, now)
        return True

    def _left(self, run: SimulatedRun, token: object, now: float) -> bool:
        assert isinstance(token, tuple)
        attempt, gone = token
        if run.job.attempt != attempt or not run.job.seats:
            return False
        run.job = replace(run.job, seats=tuple(seat for seat in run.job.seats if seat not in gone))
        if run.job.seats:
            run.hold(gpus_of(run.job.seats), now)
        else:  # Its attempt was ended by a fault.
            again = now + FIRST_BACK_OFF
            run.job = replace(run.job, phase=Phase.PENDING, backfill_until=None, not_before=again)
            self._wait_again(run, now)
        self.snapshot.put(run.job)
        return True

    def _ready(self, run: SimulatedRun) -> bool:
        if run.job.phase is not Phase.STARTING:
            return False
        run.job = replace(run.job, phase=Phase.RUNNING)
        self.snapshot.put(run.job)
        return True

    def _joined(self, run: SimulatedRun, now: float) -> bool:
        """Those who were given to it have booted: a stall, then it is faster."""
        run.catch_up(now)
        self._work(run, run.working(now), max(run.since, now + self.costs.resize))
        return self._tell(run)

    def _saved(self, run: SimulatedRun, now: float) -> bool:
        """Save a checkpoint; it changes the cost of a kill, but is no reason for a new decision."""
        run.catch_up(now)
        run.save()
        run.job = replace(run.job, saved_at=now)
        self.snapshot.put(run.job)
        assert run.work.save_every is not None
        self.agenda.push(now + run.work.save_every, SimulationEventKind.SAVED, run, run.job.attempt)
        return False

    def _set_health(self, name: NodeId, step: int) -> bool:
        before = self._broken.get(name, 0)
        self._broken[name] = before + step
        if bool(before) == bool(before + step):
            return False
        health = Health.QUARANTINED if before + step else Health.HEALTHY
        node = self._nodes[name]
        devices = tuple(replace(device, health=health) for device in node.devices)
        self._nodes[name] = replace(node, devices=devices)
        self.snapshot.set_nodes(self._nodes.values())
        return True


def _restarts(spec: Spec) -> bool:
    """True if a change of its size is a restart."""
    return not worker_per_seat(spec) or spec.resize is Resizing.RESTART
