"""What must hold after every event of a history, whatever befell it. Each check costs what has changed.

`committed` and `effect` judge one commit and one effect by sums that are kept; `recount` makes the sums anew
from all jobs and workers, by the naive reference, and compares. Nothing here asks the control plane what it
believes, but where that is the question: who acts, and of which nodes and queues it had heard.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grus.controlplane.reconciler.loop import ControlLoop
from grus.model.identifiers import DeviceId, JobId, QueueName, WorkerId
from grus.model.interfaces import Event, WorkerSpec
from grus.model.jobs import HOLDING, NEVER_CHARGED, NEXT, Desired, Job, JobType, Phase, Seat
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.scheduler.state.node_capacity_index import NOW
from tests.scheduler import reference
from tests.scheduler.reference import Facts
from tests.trust.machines import Pool
from tests.trust.violations import Broken


@dataclass(frozen=True, slots=True)
class Actor:
    """A control plane at work: what it may do depends on its turn, and on what it has heard."""

    epoch: int
    loop: ControlLoop


@dataclass
class Promises:
    """The sums, and what was promised to people."""

    jobs: Mapping[str, Job]
    """Of the store, as committed."""
    pool: Pool
    use: Counter[DeviceId] = field(default_factory=Counter)
    """Micro-GPUs of each device by seats on record."""
    held: Counter[QueueName] = field(default_factory=Counter)
    """Micro-GPUs that count for each leaf queue."""
    answered: dict[str, JobId] = field(default_factory=dict)
    """Names of submitted jobs, each used once, and the job that their owner was told of."""
    names: dict[str, JobId] = field(default_factory=dict)
    together: dict[str, frozenset[str]] = field(default_factory=dict)
    """Names of jobs that were asked for in one submission, by each of them."""
    being_stored: list[frozenset[str]] = field(default_factory=list)
    """Those of which the write that is under way has stored one."""
    removed: set[str] = field(default_factory=set)
    """Names of jobs that were removed as old, and not submitted again."""
    needs_kept: frozenset[str] = frozenset()
    """Jobs that were there when it was last looked what is too old: what they need stays."""
    node_of: dict[DeviceId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.node_of = {device.id: node.id for node in self.pool.whole for device in node.devices}

    # -------------------------------------------------------------------------------------- commits

    def committed(
        self,
        before: Job | None,
        job: Job,
        event: Event | None,
        actor: Actor | None,
        epoch: int | None,
        newest: int,
    ) -> None:
        """Judge one write of a job, before anybody hears of it."""
        self._fenced(before, job, actor, epoch, newest)
        self._named_once(before, job)
        self._goes_forward(before, job, event)
        self._is_charged_rightly(before, job, event)
        self._is_whole(job)
        old = before.seats if before is not None else ()
        if old != job.seats:
            self._moves(old, job, actor)
        counted = _counted(job) - (_counted(before) if before is not None else 0)
        if counted:
            self._counts(job, counted, actor)
        if job.phase not in HOLDING or len(job.seats) < len(old):
            self._is_free(job)
        ran = job.phase is Phase.SUCCEEDED and job.spec.has_workers and job.same_as is None
        if ran and (job.id, job.attempt) not in self.pool.finished:
            raise Broken("S5", f"{job.id} has succeeded, but no worker of attempt {job.attempt} was done")

    def _fenced(
        self, before: Job | None, job: Job, actor: Actor | None, epoch: int | None, newest: int
    ) -> None:
        by_grus = before is not None or job.spec.trial is not None
        if by_grus and epoch is None:
            raise Broken("S6", f"{job.id} was written without an epoch")
        old = actor is not None and actor.epoch < newest
        if old and by_grus:
            raise Broken("S6", f"{job.id} was written by epoch {actor and actor.epoch}, {newest} had begun")

    def _named_once(self, before: Job | None, job: Job) -> None:
        if before is None:
            self.removed.discard(job.spec.name)
        if before is None and self.names.setdefault(job.spec.name, job.id) != job.id:
            raise Broken("S4", f"{job.spec.name} is there twice: {self.names[job.spec.name]} and {job.id}")
        if before is None and job.spec.name in self.together:
            self.being_stored.append(self.together[job.spec.name])

    def written(self) -> None:
        """S4: of jobs that were submitted together all are on record after each write, or none is."""
        for names in self.being_stored:
            if missing := sorted(names - self.names.keys()):
                raise Broken("S4", f"of {sorted(names)}, submitted together, {missing} were not stored")
        self.being_stored.clear()

    def _goes_forward(self, before: Job | None, job: Job, event: Event | None) -> None:
        if event is not None and (event.job != job.id or event.attempt != job.attempt):
            raise Broken("S5", f"{job.id}, attempt {job.attempt}: event {event} is of another")
        if before is None:
            if job.phase is not Phase.PENDING or job.version != 1:
                raise Broken("S5", f"{job.id} begins as {job.phase}, version {job.version}")
            return
        if before.terminal:
            raise Broken("S5", f"{job.id} is {before.phase}, which is final, and was written again")
        if job.phase is not before.phase and job.phase not in NEXT[before.phase]:
            raise Broken("S5", f"{job.id} went from {before.phase} to {job.phase}")
        if job.version != before.version + 1:
            raise Broken("S5", f"{job.id} went from version {before.version} to {job.version}")
        starts = job.phase is Phase.STARTING and before.phase is not Phase.STARTING
        if job.attempt != before.attempt + starts and job.spec.has_workers:
            raise Broken("S5", f"{job.id} went from attempt {before.attempt} to {job.attempt}, {job.phase}")
        if job.attempt == before.attempt and job.generation < before.generation:
            raise Broken("S5", f"{job.id} went from generation {before.generation} to {job.generation}")
        if job.failures > job.spec.retries + 1 and job.spec.type is not JobType.SERVE:
            raise Broken("S5", f"{job.id} has failed {job.failures} times with {job.spec.retries} retries")

    def _is_charged_rightly(self, before: Job | None, job: Job, event: Event | None) -> None:
        """S5, L3: a failure is what the job did itself, and who has failed stands back for a while."""
        if before is None or event is None or job.failures <= before.failures:
            return
        if job.exit is not None and job.exit.cause in NEVER_CHARGED:
            raise Broken("S5", f"{job.id} was charged for an end that was not its own: {job.exit}")
        if not job.terminal and job.not_before <= event.at:
            raise Broken("L3", f"{job.id} has failed {job.failures} times and may start again at once")

    def _is_whole(self, job: Job) -> None:
        """S2: who goes on has an allowed number of each role; who is about to be done may lose some."""
        if job.phase not in HOLDING:
            if job.seats:
                raise Broken("S2", f"{job.id} is {job.phase} and holds seats")
            return
        if job.phase is Phase.PAUSING or job.exit is not None or job.desired is not Desired.RUN:
            return
        if not job.spec.has_workers or (job.id, job.attempt) in self.pool.finished:
            return
        number = Counter(seat.role for seat in job.seats if not seat.leaving)
        sizes = job.spec.request.sizes
        for role in job.spec.request.roles:
            there, range_ = number[role.name], role.replicas
            fits = range_.low <= there <= range_.high
            if not fits or (not range_.rigid and sizes and there not in sizes):
                raise Broken(
                    "S2", f"{job.id} holds {there} of role {role.name}, allowed are {range_} {sizes}"
                )
        if job.spec.request.one_node and len({seat.node for seat in job.staying}) > 1:
            raise Broken("S2", f"{job.id} is on several nodes")

    def _moves(self, old: tuple[Seat, ...], job: Job, actor: Actor | None) -> None:
        """S1: what is given is there, healthy as far as was heard, and never more than a whole device."""
        for seat in old:
            for device in seat.devices:
                self.use[device] -= seat.share
        places = {(seat.role, seat.index, seat.devices) for seat in old}
        for seat in job.seats:
            new = (seat.role, seat.index, seat.devices) not in places
            for device in seat.devices:
                self.use[device] += seat.share
                if self.use[device] > GPU:
                    raise Broken(
                        "S1", f"device {device} is promised to {self.use[device]} of {GPU}: {job.id}"
                    )
                if self.node_of.get(device) != seat.node:
                    raise Broken("S1", f"{job.id}: device {device} is not of node {seat.node}")
                if new and actor is not None and device not in _usable(actor.loop):
                    raise Broken("S1", f"{job.id} was given {device}, which takes no work")

    def _counts(self, job: Job, counted: int, actor: Actor | None) -> None:
        """S3: no limit is crossed, and what is reserved stays so."""
        if counted < 0 or actor is None:
            self.held[job.spec.queue] += counted
            return
        queues, nodes = actor.loop.picture.by_name, actor.loop.picture.nodes
        gone = self._on_vanished(nodes)
        claimed = _claimed(queues, self.held - gone)
        self.held[job.spec.queue] += counted
        held = self.held - gone
        for queue in _chain(queues, job.spec.queue):
            below = sum(held[name] for name in _leaves(queues, queue.name))
            if queue.limit is not None and below > queue.limit:
                raise Broken(
                    "S3", f"queue {queue.name} holds {below}, above its limit {queue.limit}: {job.id}"
                )
        now, whole = _claimed(queues, held), len(_healthy(nodes)) * GPU
        if now > max(claimed, whole):
            raise Broken("S3", f"{job.id}: claimed are {now} of a pool of {whole}, before it was {claimed}")

    def _on_vanished(self, nodes: tuple[Node, ...]) -> Counter[QueueName]:
        """What is held on nodes that are not there any more: it is taken from nobody."""
        found: Counter[QueueName] = Counter()
        if len(nodes) == len(self.pool.whole):
            return found
        there = {node.id for node in nodes}
        for job in self.jobs.values():
            found[job.spec.queue] += sum(
                GPU if job.spec.request.shares else seat.held
                for seat in job.seats
                if seat.node not in there and job.guest_of is None
            )
        return found

    def _is_free(self, job: Job) -> None:
        """S7, S9: what a job gives back, none of its workers is bound to any more."""
        living = self.pool.living.get(job.id)
        if not living:
            return
        if not job.seats:
            raise Broken(
                "S9", f"{job.id} is {job.phase} and has given all back, but alive are {list(living)}"
            )
        mine = {device for seat in job.seats for device in seat.devices}
        for worker, one in living.items():
            if not mine.issuperset(one.spec.devices):
                raise Broken("S9", f"{job.id} has given back what {worker} is bound to: {one.spec.devices}")

    # -------------------------------------------------------------------------------------- effects

    def effect(self, actor_epoch: int, verb: str, worker: WorkerId, spec: WorkerSpec | None) -> None:
        """Judge an effect that was not refused."""
        if actor_epoch < self.pool.workers.epoch:
            newest = self.pool.workers.epoch
            raise Broken("S6", f"epoch {actor_epoch} could {verb} {worker} although {newest} had begun")
        if verb == "stop" and spec is not None:
            self._may_stop(worker, spec)

    def begun(self, spec: WorkerSpec) -> None:
        """A process was really started."""
        job = self.jobs.get(spec.job)
        if job is None or job.phase not in HOLDING or job.attempt != spec.attempt:
            raise Broken("S7", f"{spec.id} was started, on record is {job and (job.phase, job.attempt)}")
        mine = Counter({device: 0 for seat in job.seats for device in seat.devices})
        for seat in job.seats:
            for device in seat.devices:
                mine[device] += seat.share
        living = self.pool.living.get(spec.job, {})
        for other in living.values():
            if other.spec.attempt != spec.attempt:
                raise Broken("S7", f"{spec.id} was started while {other.spec.id} is alive")
        for device in spec.devices:
            if device not in mine:
                raise Broken("S1", f"{spec.id} was bound to {device}, which its job does not hold")
            bound = sum(one.spec.share for one in living.values() if device in one.spec.devices)
            if not job.spec.request.shares and bound > mine[device]:
                raise Broken("S1", f"{spec.job} holds {mine[device]} of {device}, its workers {bound}")

    def _may_stop(self, worker: WorkerId, spec: WorkerSpec) -> None:
        """L2: no worker is stopped that the record wants to go on."""
        job = self.jobs.get(spec.job)
        if job is None or job.phase not in (Phase.STARTING, Phase.RUNNING) or job.attempt != spec.attempt:
            return
        if job.exit is not None or job.desired is not Desired.RUN or worker.endswith(".setup.0.0"):
            return
        _, _, role, index, born = worker.rsplit(".", 4)
        for seat in job.seats:
            own = (seat.role, str(seat.index), str(seat.born)) == (role, index, born)
            if own and not seat.leaving and not seat.cut:
                raise Broken("L2", f"{worker} was stopped, but its job {job.phase} and is to go on")

    # --------------------------------------------------------------------------------------- people

    def submits(self, names: Iterable[str]) -> None:
        """Somebody is about to submit jobs with these names together."""
        together = frozenset(names)
        self.together.update(dict.fromkeys(together, together))

    def acknowledged(self, job: Job) -> None:
        """S4: somebody was told that this job is stored."""
        if self.answered.setdefault(job.spec.name, job.id) != job.id:
            raise Broken(
                "S4", f"{job.spec.name} was first told to be {self.answered[job.spec.name]}, now {job.id}"
            )
        if job.id not in self.jobs:
            raise Broken("S4", f"{job.id} was acknowledged and is not on record")

    def pruned(self, gone: Sequence[Job], before: float) -> None:
        """S4, S5: only what has ended long ago goes, and nothing that one who has not ended needs."""
        removed = {job.id for job in gone}
        for job in gone:
            if not job.terminal or job.ended_at is None or job.ended_at >= before:
                raise Broken("S4", f"{job.id} is {job.phase}, ended at {job.ended_at}, and was removed")
            self.names.pop(job.spec.name, None)
            self.answered.pop(job.spec.name, None)
            self.removed.add(job.spec.name)
        for job in self.jobs.values():
            if job.spec.trial is not None and job.spec.trial.sweep in removed:
                self.names.pop(
                    job.spec.name, None
                )  # its sweep, asked for again, has trials of the same names
            if not job.terminal and job.id in self.needs_kept and (lost := _needs(job) & removed):
                raise Broken("S4", f"{sorted(lost)} were removed, and {job.id} needs them")
        self._trials_stay(gone)

    def _trials_stay(self, gone: Sequence[Job]) -> None:
        """A search that goes on counts its trials."""
        for job in gone:
            sweep = None if job.spec.trial is None else self.jobs.get(job.spec.trial.sweep)
            if sweep is not None and not sweep.terminal:
                raise Broken("S4", f"{job.id} was removed, and its sweep {sweep.id} is {sweep.phase}")

    # ------------------------------------------------------------------------------------ all of it

    def recount(self) -> None:
        """The sums made anew, from all there is."""
        for name, id_ in self.answered.items():
            if id_ not in self.jobs or self.jobs[id_].spec.name != name:
                raise Broken("S4", f"{id_} ({name}) was acknowledged and is lost")
        self._submissions_are_whole()
        facts = Facts(self.pool.whole, (), tuple(self.jobs.values()))
        for device, use in reference.device_use(facts).items():
            if use > GPU:
                raise Broken("S1", f"device {device} is promised to {use} of {GPU}")
            if use != self.use[device]:
                raise Broken("CHECK", f"device {device}: {self.use[device]} was counted, it is {use}")
        held: Counter[QueueName] = Counter()
        for job in self.jobs.values():
            held[job.spec.queue] += _counted(job)
            self._is_whole(job)
            self._is_free(job)
        if +held != +self.held:
            raise Broken("CHECK", f"counted for queues was {self.held}, it is {held}")
        started = self.pool.workers.started
        if len(started) != len(set(started)):
            raise Broken("S7", f"a worker was started twice: {Counter(started).most_common(1)}")

    def _submissions_are_whole(self) -> None:
        found: dict[str, set[str]] = {}
        for job in self.jobs.values():
            if job.spec.graph:
                found.setdefault(job.spec.graph, set()).add(job.spec.name)
        for graph, names in found.items():
            if self.together.get(min(names), frozenset()) - self.removed != names:
                raise Broken("S4", f"of the submission {graph} only {sorted(names)} are on record")

    def believed(self, loop: ControlLoop) -> None:
        """S10: a control plane at rest believes what is on record."""
        if loop.drift:
            raise Broken("S10", f"usage believed and on record differed {loop.drift} times")
        picture = loop.picture
        for device in picture.snapshot.pool.by_id.values():
            believed = GPU - device.free[NOW]
            if believed != self.use[DeviceId(device.id)]:
                raise Broken(
                    "S10", f"device {device.id}: {self.use[DeviceId(device.id)]} held, {believed} believed"
                )
        for id_ in picture.holding:
            if self.jobs[id_].phase not in HOLDING:
                raise Broken("S10", f"{id_} is believed to hold seats and is {self.jobs[id_].phase}")


def _needs(job: Job) -> set[JobId]:
    """What it comes after, is given something by, or belongs to."""
    own = {*job.spec.after, *(one.job for one in job.spec.inputs)}
    return own if job.spec.trial is None else own | {job.spec.trial.sweep}


def _counted(job: Job) -> int:
    """What counts for its queue: of a GPU that is shared, its first user has it all and a guest nothing."""
    if job.spec.request.shares and job.seats:
        return 0 if job.guest_of is not None else GPU * len(job.seats)
    return job.held


def _chain(queues: Mapping[QueueName, Queue], name: QueueName) -> list[Queue]:
    found = []
    at: QueueName | None = name
    while at is not None and at in queues:
        found.append(queues[at])
        at = queues[at].parent
    return found


def _claimed(
    queues: Mapping[QueueName, Queue], held: Counter[QueueName], parent: QueueName | None = None
) -> int:
    """As the reference has it: held or reserved, whichever is more; a branch holds what is claimed below."""
    total = 0
    for queue in queues.values():
        if queue.parent == parent:
            leaf = all(other.parent != queue.name for other in queues.values())
            below = held[queue.name] if leaf else _claimed(queues, held, queue.name)
            total += max(below, queue.reserved)
    return total


def _leaves(queues: Mapping[QueueName, Queue], name: QueueName) -> list[QueueName]:
    below = [queue.name for queue in queues.values() if queue.parent == name]
    return [leaf for child in below for leaf in _leaves(queues, child)] if below else [name]


def _healthy(nodes: tuple[Node, ...]) -> list[DeviceId]:
    return [device.id for node in nodes for device in node.devices if device.usable]


def _usable(loop: ControlLoop) -> set[DeviceId]:
    """Devices that take new work, as far as this control plane has heard."""
    nodes = tuple(node for node in loop.picture.nodes if not node.cordoned)
    return set(_healthy(nodes))
