"""Discrete events in virtual time around the production scheduler.

Jobs arrive and end, nodes fail and recover. After every moment with an event `grus.scheduler.cycle.decide`
is called, on a snapshot that is kept up to date in the same way as the control plane's, and its answer is
carried out with the costs of the real system. Like the control plane, the simulator calls it again after it
has acted, until there is nothing more to do. Nothing here decides anything.

    arrival → waiting → (start cost) → working → done
                 ↑                        │ pause: saves inside its grace period, then gives its GPUs back
                 └────────────────────────┘ fault: back to its last checkpoint; the work since then is lost

Same input, same result to the byte: no clock, no chance.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import NodeId
from grus.model.jobs import Job
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.scheduler import cycle
from grus.scheduler.decisions import Decisions
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.queues.policies import GRUS, Policy
from grus.scheduler.queues.user_limits import UserLimits
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.events.decision_executor import Costs, Effects
from grus.simulator.events.event_queue import SimulationEventKind
from grus.simulator.events.job_progress import SimulatedRun
from grus.simulator.events.pool_metrics import Ledger
from grus.simulator.events.run_results import Result
from grus.simulator.workload.job_work import TraceJob

Decide = Callable[[Snapshot, float], Decisions]
Progress = Callable[[int, int], None]
"""Callback that receives the number of ended jobs, and their total."""
Watch = Callable[["Simulation", Decisions], None]
"""Called after every decision that was carried out."""
Until = Callable[["Simulation"], bool]
"""Predicate that returns True to stop; may let jobs in (`admit`) or announce some (`expect`)."""

MOST_IDLE_WAKES = 10_000
"""Requests for another call, with no event between them, that count as a defect of the scheduler."""
MOST_PASSES = 1000
"""Decisions at one moment, each with an effect, that count as a defect of the scheduler, too."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A node fails at a moment, and is repaired at another (None: never)."""

    at: float
    node: NodeId
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Underway:
    """A job that is there already when the simulation begins, and how much of its work is done and saved."""

    job: Job
    work: TraceJob
    done: float = 0.0


class Simulation:
    """One run through a trace. `run` may be called once."""

    def __init__(
        self,
        nodes: Iterable[Node],
        queues: Iterable[Queue],
        works: Iterable[TraceJob],
        *,
        costs: Costs | None = None,
        faults: Sequence[Fault] = (),
        underway: Sequence[Underway] = (),
        begin: float | None = None,
        policy: Policy = GRUS,
        user_limits: UserLimits | None = None,
        decide: Decide = cycle.decide,
        history: bool = False,
        watch: Watch | None = None,
    ) -> None:
        nodes = tuple(nodes)
        self.arrivals = sorted(works, key=lambda work: (work.submit, work.id))
        self.total = len(self.arrivals) + len(underway)
        self.begin = begin if begin is not None else next((work.submit for work in self.arrivals), 0.0)
        self.now = self.begin
        self.snapshot = Snapshot(nodes, queues, policy=policy)
        self.snapshot.set_user_limits(user_limits or {})
        check_fits(self.snapshot, self.arrivals)
        self.effects = Effects(self.snapshot, nodes, costs or Costs(), spans=history)
        self.ledger = Ledger(self.snapshot, self.begin, history)
        self.decides = 0
        self._gpus = self.snapshot.pool.capacity / GPU
        self._decide_with = decide
        self._watch = watch
        self._arrived = 0
        self._wake_at: float | None = None
        self._put_in(faults, underway)

    def _put_in(self, faults: Sequence[Fault], underway: Sequence[Underway]) -> None:
        agenda = self.effects.agenda
        for fault in sorted(faults, key=lambda fault: (fault.at, fault.node)):
            agenda.push(fault.at, SimulationEventKind.BREAK, None, fault.node)
            if fault.until is not None:
                agenda.push(fault.until, SimulationEventKind.REPAIR, None, fault.node)
        for one in underway:
            self.effects.take_over(SimulatedRun(one.work, one.job, one.done), self.begin)

    def admit(self, one: Underway) -> None:
        """Let a job in now that waited outside; for a caller that is asked by `run` whether to stop."""
        self.total += 1
        self.effects.take_over(SimulatedRun(one.work, one.job, one.done), self.now)
        self._wake_at = self.now

    def expect(self, works: Sequence[TraceJob]) -> None:
        """These will come, now or later; for a caller that lets jobs follow on others."""
        check_fits(self.snapshot, works)
        for work in works:
            insort(self.arrivals, work, lo=self._arrived, key=lambda work: (work.submit, work.id))
        self.total += len(works)

    def run(self, progress: Progress | None = None, every: int = 1000, until: Until | None = None) -> Result:
        """Continue until nothing more can happen; `progress` is called after each `every` ended jobs.

        `until` is called after each moment, before the decisions on it, and returns whether to stop there.
        """
        told = idle_wakes = 0
        ask = bool(self.effects.runs)
        ended = self.effects.ended
        while True:
            if ask:
                idle_wakes = 0 if self._decide() else idle_wakes + 1
                assert idle_wakes < MOST_IDLE_WAKES + 2 * self.total, "the scheduler asks for ever"
            moment = self._next()
            if moment is None:
                break
            self.ledger.pass_to(moment, self.effects.waiting)
            self.now = moment
            ask = self._happen(moment)
            if until is not None and until(self):
                break
            if progress is not None and len(ended) - told >= every:
                told = len(ended)
                progress(told, self.total)
        if progress is not None:
            progress(len(ended), self.total)
        return self._result()

    def _next(self) -> float | None:
        """The next moment at which something happens; None when all is done or nothing more can happen."""
        arrival = self.arrivals[self._arrived].submit if self._arrived < len(self.arrivals) else None
        if arrival is None and not self.effects.runs:
            return None  # Faults may be left; they affect no job.
        times = [at for at in (arrival, self.effects.agenda.next_at(), self._wake_at) if at is not None]
        return max(self.now, min(times)) if times else None

    def _happen(self, now: float) -> bool:
        """Let everything of this moment happen; whether the scheduler should be asked."""
        ask = False
        effects, arrivals = self.effects, self.arrivals
        while (due := effects.agenda.pop_due(now)) is not None:
            ask |= effects.happen(due, now)
        while self._arrived < len(arrivals) and arrivals[self._arrived].submit <= now:
            effects.arrive(arrivals[self._arrived], now)
            self._arrived += 1
            ask = True
        if self._wake_at is not None and self._wake_at <= now:
            self._wake_at = None
            ask = True
        return ask

    def _decide(self) -> bool:
        """Ask and act until there is nothing more to do now; whether anything was done."""
        acted = False
        for _ in range(MOST_PASSES):
            if self.effects.nothing_to_decide():
                self._wake_at = None
                return acted
            self.decides += 1
            decisions = self._decide_with(self.snapshot, self.now)
            for action in decisions.actions:
                self.effects.carry_out(action, self.now)
            self._wake_at = decisions.wake_at
            self.ledger.judge(decisions)
            if self._watch is not None:
                self._watch(self, decisions)
            if not decisions.actions:
                return acted
            acted = True
        raise AssertionError(f"no end of decisions at {self.now}")

    def _result(self) -> Result:
        left = [run.record(self.now) for run in self.effects.runs.values()]
        jobs = sorted([*self.effects.ended, *left], key=lambda ran: (ran.work.submit, ran.work.id))
        ledger = self.ledger
        return Result(
            jobs=tuple(jobs),
            begin=self.begin,
            end=self.now,
            gpus=self._gpus,
            offered=ledger.offered,
            idle=ledger.idle,
            scattered=ledger.scattered,
            longest_queue=ledger.longest_queue,
            decides=self.decides,
            violations=tuple(ledger.violations),
            moments=tuple(ledger.moments),
        )


def check_fits(snapshot: Snapshot, works: Iterable[TraceJob]) -> None:
    """Raise BadInput with every job that no state of the pool could run: it would wait indefinitely."""
    mistakes = []
    for work, why in unfit(snapshot, works):
        asked = str(work.size) if work.size else f"{work.gpus:g}"
        mistakes.append(Mistake("gpus", why, asked, work.line))
    if mistakes:
        raise BadInput(mistakes)


def unfit(snapshot: Snapshot, works: Iterable[TraceJob]) -> Iterator[tuple[TraceJob, str]]:
    """Each job that no state of the pool could run, and why."""
    judged: dict[tuple[object, ...], str] = {}
    for work in works:
        name = (work.queue, work.gpus, work.size, work.priority, work.type, work.one_node, work.spec)
        if name not in judged:
            judged[name] = _wrong(snapshot, work)
        if judged[name]:
            yield work, judged[name]


def _wrong(snapshot: Snapshot, work: TraceJob) -> str:
    queue = snapshot.tree.by_name.get(work.queue)
    if queue is None:
        return f"its queue {work.queue} is not configured"
    if not queue.leaf:
        return f"its queue {work.queue} has queues below it: jobs belong into one of those"
    return never_fits(snapshot, work.job().spec)
