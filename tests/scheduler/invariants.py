"""What must hold after every step of any history, as functions that return the sentences that are broken.

`of_step` judges one carried-out decision against the facts before it; `at_rest` judges a world in which the
scheduler has nothing more to do. Both use the naive reference only.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, JobType, Seat
from grus.model.resources import GPU, Role
from grus.scheduler.decisions import Decisions, Pause, Requeue, Resize, Share, Start
from tests.scheduler import reference as ref
from tests.scheduler.reference import Facts

MINIMUM_RUN = 60.0


def of_step(before: Facts, decisions: Decisions, after: Facts) -> list[str]:
    """Everything wrong with one decision and the state that carrying it out has led to."""
    return [
        *devices_hold_what_they_can(after),
        *branches_keep_limits(before, after),
        *users_keep_limits(before, after),
        *reserved_is_kept(before, after),
        *never_preempted_stays_inside_quota(before, after, decisions),
        *gangs_have_one_type(after, decisions),
        *each_job_once(decisions),
        *targets_are_legal(before, decisions),
        *gangs_are_whole(after, decisions),
        *new_seats_are_allowed(before, decisions),
        *seats_have_names_of_their_own(before, decisions),
        *nothing_runs_on_lost_devices(after),
        *the_young_are_guarded(before, decisions),
    ]


def devices_hold_what_they_can(facts: Facts) -> Iterator[str]:
    for device, use in ref.device_use(facts).items():
        if use > GPU:
            yield f"device {device} is over-allocated: {use}"
    for node in facts.nodes:
        cpu, memory = ref.host_use(facts)[node.id]
        if node.cpu is not None and cpu > node.cpu:
            yield f"node {node.id} has {node.cpu} thousandths of a core, held are {cpu}"
        if node.memory is not None and memory > node.memory:
            yield f"node {node.id} has {node.memory} bytes, held are {memory}"
    known = ref.devices(facts)
    for job in facts.jobs:
        for seat in job.seats:
            if any(d in known and known[d][0].id != seat.node for d in seat.devices):
                yield f"{job.id}: seat {seat} names devices of another node"
            if len(set(seat.devices)) != len(seat.devices):
                yield f"{job.id}: seat {seat} names a device twice"


def users_keep_limits(before: Facts, after: Facts) -> Iterator[str]:
    """Nobody holds more than the limit, unless it was lowered; then nobody holds more than before."""
    for user, limit in after.user_limits.items():
        held = _held_by(after, user)
        if held > max(limit, _held_by(before, user)):
            yield f"user {user} holds {held}, above the limit {limit}"


def _held_by(facts: Facts, user: str) -> int:
    return sum(job.held for job in facts.jobs if job.user == user)


def branches_keep_limits(before: Facts, after: Facts) -> Iterator[str]:
    for queue in after.queues:
        held = ref.held(after, queue.name)
        if queue.limit is not None and held > max(queue.limit, ref.held(before, queue.name)):
            yield f"queue {queue.name} holds {held}, above its limit {queue.limit}"


def reserved_is_kept(before: Facts, after: Facts) -> Iterator[str]:
    """Σ max(held, reserved) ≤ pool; where it is above (a loss, a new configuration) it may not rise."""
    claimed = ref.claimed(after)
    if claimed > max(ref.pool(after), ref.claimed(before)):
        yield f"claimed {claimed} of a pool of {ref.pool(after)}, before it was {ref.claimed(before)}"


def never_preempted_stays_inside_quota(before: Facts, after: Facts, decisions: Decisions) -> Iterator[str]:
    jobs = {job.id: job for job in before.jobs}
    for action in decisions.actions:
        spec = jobs[action.job].spec
        if not isinstance(action, Start) or not spec.never_preempted:
            continue
        for queue in ref.chain(after, spec.queue):
            if ref.never_preempted(after, queue.name) > queue.quota.total:
                yield f"{action.job} started though never-preempted work is beyond the quota of {queue.name}"
            if not queue.quota.typed:
                continue
            for kind, held in ref.never_preempted_by_type(after, queue).items():
                if held > dict(queue.quota.by_type).get(kind, 0):
                    yield f"{action.job} started: such work is beyond the quota of {queue.name} for {kind}"


def gangs_have_one_type(after: Facts, decisions: Decisions) -> Iterator[str]:
    """All seats that a job has from now on are on one type, but for roles that name their types."""
    known, jobs = ref.devices(after), {job.id: job for job in after.jobs}
    for action in decisions.actions:
        job = jobs.get(action.job)
        if job is None or not isinstance(action, Start | Resize):
            continue
        if job.spec.request.mixed or job.spec.type is JobType.SERVE:
            continue
        free = {role.name for role in job.spec.request.roles if not role.replica.types}
        mine = [seat for seat in job.staying if seat.role in free]
        kinds = {known[device][1].type for seat in mine for device in seat.devices}
        if len(kinds) > 1:
            yield f"{job.id} is on unlike types: {', '.join(sorted(kinds))}"


def each_job_once(decisions: Decisions) -> Iterator[str]:
    for job, times in Counter(action.job for action in decisions.actions).items():
        if times > 1:
            yield f"{job} is decided upon {times} times in one cycle"
    for action in decisions.actions:
        if not action.reason:
            yield f"no reason given: {action}"


def targets_are_legal(before: Facts, decisions: Decisions) -> Iterator[str]:
    jobs = {job.id: job for job in before.jobs}
    for action in decisions.actions:
        job = jobs[action.job]
        if isinstance(action, Start) and not ref.waits(before, job):
            yield f"{job.id} started though it may not: {job.phase}, {job.desired}, {job.paused_by}"
        if isinstance(action, Pause | Resize | Share) and not ref.holds(job):
            yield f"{type(action).__name__} of {job.id}, which is {job.phase}, {job.desired}"
        if isinstance(action, Pause) and job.spec.never_preempted:
            yield f"{job.id} is never preempted, but paused: {action.reason}"
        if isinstance(action, Requeue) and not _on_lost_device(before, job):
            yield f"{job.id} re-queued though all its devices are healthy"


def _on_lost_device(facts: Facts, job: Job) -> bool:
    lost = ref.unhealthy(facts)
    known = ref.devices(facts)
    return any(d in lost or d not in known for seat in job.seats for d in seat.devices)


def gangs_are_whole(after: Facts, decisions: Decisions) -> Iterator[str]:
    """Whoever was started or resized has an allowed number of every role, on one node if asked."""
    touched = {a.job for a in decisions.actions if isinstance(a, Start | Resize)}
    for job in after.jobs:
        if job.id not in touched:
            continue
        number = Counter(seat.role for seat in job.staying)
        for role, allowed in ref.counts(job).items():
            if number[role] not in allowed:
                yield f"{job.id} has {number[role]} of role {role}, allowed are {allowed}"
        if job.spec.request.one_node and len({seat.node for seat in job.staying}) > 1:
            yield f"{job.id} asked for one node and is on several"


def new_seats_are_allowed(before: Facts, decisions: Decisions) -> Iterator[str]:
    jobs = {job.id: job for job in before.jobs}
    for action in decisions.actions:
        if not isinstance(action, Start | Resize):
            continue
        job = jobs[action.job]
        roles = {role.name: role for role in job.spec.request.roles}
        for seat in _fresh(job, action):
            yield from _wrong_with_seat(before, job, roles[seat.role], seat, action)


def _fresh(job: Job, action: Start | Resize) -> list[Seat]:
    old = {replace(seat, leaving=False) for seat in job.seats} if isinstance(action, Resize) else set()
    return [seat for seat in action.seats if replace(seat, leaving=False) not in old]


def _wrong_with_seat(facts: Facts, job: Job, role: Role, seat: Seat, action: Start | Resize) -> Iterator[str]:
    nodes = {node.id: node for node in facts.nodes}
    known = ref.devices(facts)
    replica = role.replica
    if seat.leaving:
        yield f"{job.id}: a new seat is leaving: {seat}"
    if not ref.may_use(facts, job, nodes[seat.node], None, replica):
        yield f"{job.id}: may not use node {seat.node}"
    for name in seat.devices:
        device = known[name][1]
        if not ref.may_use(facts, job, nodes[seat.node], device, replica):
            yield f"{job.id}: may not use device {device}"
        share = GPU if replica.gpus else replica.share_of(device.memory)
        lodges = isinstance(action, Start) and action.guest_of is not None
        if seat.share != (GPU // 2 if lodges else share):
            yield f"{job.id}: seat takes {seat.share} of {name}, should take {share}"
    number = replica.gpus or (1 if replica.share or replica.gpu_memory else 0)
    if len(seat.devices) != number:
        yield f"{job.id}: seat has {len(seat.devices)} devices, should have {number}"


def seats_have_names_of_their_own(before: Facts, decisions: Decisions) -> Iterator[str]:
    """(role, index, born) names a worker of an attempt; a resize keeps every old seat, staying or leaving."""
    jobs = {job.id: job for job in before.jobs}
    for action in decisions.actions:
        if not isinstance(action, Start | Resize):
            continue
        job = jobs[action.job]
        names = Counter((seat.role, seat.index, seat.born) for seat in action.seats)
        indexes = Counter((seat.role, seat.index) for seat in action.seats if not seat.leaving)
        if max([*names.values(), *indexes.values()], default=1) > 1:
            yield f"{job.id}: two seats of one name: {action.seats}"
        born = 1 if isinstance(action, Start) else job.generation + 1
        if any(seat.born != born for seat in _fresh(job, action)):
            yield f"{job.id}: new seats must be born in generation {born}: {action.seats}"
        if isinstance(action, Resize):
            kept = {replace(seat, leaving=False) for seat in action.seats}
            returned = {seat for seat in action.seats if not seat.leaving}
            if any(replace(seat, leaving=False) not in kept for seat in job.seats):
                yield f"{job.id}: a resize dropped a seat whose end is not proven"
            if any(seat.leaving and replace(seat, leaving=False) in returned for seat in job.seats):
                yield f"{job.id}: a seat that was leaving stays after all"


def nothing_runs_on_lost_devices(after: Facts) -> Iterator[str]:
    lost = ref.unhealthy(after)
    for job in after.jobs:
        if ref.holds(job) and any(d in lost for seat in job.staying for d in seat.devices):
            yield f"{job.id} goes on on an unhealthy device"


def the_young_are_guarded(before: Facts, decisions: Decisions) -> Iterator[str]:
    """A job younger than a minute is paused only where a request inside quota waits, a backfill is due, or
    its node is drained."""
    jobs = {job.id: job for job in before.jobs}
    asked = any(_someone_inside_waits(before, queue.name) for queue in before.queues)
    drained = {node.id for node in before.nodes if node.drain is not None}
    for action in decisions.actions:
        job = jobs[action.job]
        if any(seat.node in drained for seat in job.seats):
            continue
        if not isinstance(action, Pause) or asked or job.guest_of is not None:
            continue
        due = job.backfill_until is not None and job.backfill_until <= before.now
        if job.started_at is not None and before.now - job.started_at < MINIMUM_RUN - 0.001 and not due:
            yield f"{job.id} is {before.now - job.started_at:.0f} s old and paused for a request over quota"


def _someone_inside_waits(facts: Facts, name: str) -> bool:
    """Whether anything in the branch might be inside quota: generous, so that only clear faults are told."""
    queue = next(q for q in facts.queues if q.name == name)
    quota = ref.effective_quotas(facts)[queue.name]
    for job in ref.members(facts, queue.name):
        staying = sum(seat.held for seat in job.staying) if ref.holds(job) else 0
        wanted = ref.waits(facts, job) or (ref.holds(job) and staying < ref.maximum(facts, job))
        if wanted and max(ref.minimum(facts, job), staying + 1) <= quota:
            return True
    return False


# --------------------------------------------------------------------------------------------- at rest


def at_rest(facts: Facts) -> list[str]:
    """Everything that the scheduler should have done before it went quiet."""
    return [*inside_quota_is_served(facts)]


def inside_quota_is_served(facts: Facts) -> Iterator[str]:
    """No request inside its leaf's quota waits if it fits once everything over quota is gone."""
    if any(q.oversubscribe or q.quota.typed or q.nodes for q in facts.queues):
        return
    cordoned = sum(GPU for node in facts.nodes if node.cordoned for d in node.devices if d.usable)
    if sum(q.quota.total for q in ref.children(facts, None)) > ref.pool(facts) - cordoned:
        return
    for queue in facts.queues:
        if ref.children(facts, queue.name):
            continue
        if len({job.user for job in ref.members(facts, queue.name)}) > 1:
            continue
        for job in ref.members(facts, queue.name):
            if job.user in facts.user_limits:
                continue
            if ref.waits(facts, job) and not _behind_a_gang(facts, job) and _must_run(facts, job):
                yield f"{job.id} waits though it is inside the quota of {queue.name}"


def _behind_a_gang(facts: Facts, job: Job) -> bool:
    """A gang that fits its quota is passed in its queue only by backfill: who is behind one may wait."""
    return any(
        other.spec.priority >= job.spec.priority
        and GPU < ref.minimum(facts, other) <= ref.effective_quotas(facts)[job.spec.queue]
        for other in facts.jobs
        if other.spec.queue == job.spec.queue and other.id != job.id and ref.waits(facts, other)
    )


def _must_run(facts: Facts, job: Job) -> bool:
    pieces = ref.inside(facts, job.spec.queue)
    if not pieces[job.id].minimum:
        return False
    kept = replace(facts, jobs=tuple(_without_borrowed(facts, other, job) for other in facts.jobs))
    return ref.fits_now(kept, job, _room(kept, job))


def _room(facts: Facts, job: Job) -> Fraction:
    """What the job may count for, wherever it is put, by its queue's quota and the rules above it."""
    queues = ref.chain(facts, job.spec.queue)
    rooms = [ref.effective_quotas(facts)[job.spec.queue] - ref.held(facts, job.spec.queue)]
    rooms += [Fraction(q.limit - ref.held(facts, q.name)) for q in queues if q.limit is not None]
    if job.spec.never_preempted:
        rooms += [Fraction(q.quota.total - ref.never_preempted(facts, q.name)) for q in queues]
    least = ref.minimum(facts, job)
    if ref.claimed(holding(facts, job, least)) > ref.pool(facts):
        return Fraction(0)
    return min(rooms)


def holding(facts: Facts, job: Job, amount: int) -> Facts:
    """The facts as if the job held that amount; for sums only."""
    return replace(facts, jobs=tuple(_pretend(j, amount) if j.id == job.id else j for j in facts.jobs))


def _pretend(job: Job, amount: int) -> Job:
    """The job as if it held that amount, on a device that is nowhere: for sums only."""
    seat = Seat("pretended", 0, NodeId("nowhere"), (DeviceId("nowhere"),), amount)
    return replace(job, seats=(seat,))


def _without_borrowed(facts: Facts, job: Job, asking: Job) -> Job:
    """The job without what a request inside quota may take: over quota; in the own queue by priority."""
    if not ref.holds(job):
        return job
    own = job.spec.queue == asking.spec.queue
    if own and job.spec.priority >= asking.spec.priority:
        return job if job.spec.priority > asking.spec.priority else _shrunk(job)
    if not own and not _part_at_the_leaf(facts, job, asking):
        return job
    if len({other.user for other in ref.members(facts, job.spec.queue)}) > 1:
        return job
    # What waits elsewhere, perhaps for ever, makes nothing over quota that runs: it must hold too much.
    among = facts if own else replace(facts, jobs=tuple(j for j in facts.jobs if ref.holds(j)))
    piece = ref.inside(among, job.spec.queue)[job.id]
    if job.spec.never_preempted or piece.minimum:
        return job
    return replace(job, seats=())


def _part_at_the_leaf(facts: Facts, job: Job, asking: Job) -> bool:
    """Whether the two branches part at the other's own queue, where its walk says what is over quota."""
    above = {queue.name for queue in ref.chain(facts, asking.spec.queue)}
    return all(queue.name in above for queue in ref.chain(facts, job.spec.queue)[1:])


def _shrunk(job: Job) -> Job:
    """The job at its smallest size; the last seats have left."""
    allowed = ref.counts(job)
    kept = [seat for seat in job.staying if seat.index < min(allowed[seat.role])]
    whole = Counter(seat.role for seat in kept) == Counter({role: min(n) for role, n in allowed.items()})
    return replace(job, seats=tuple(kept)) if whole else job


# ------------------------------------------------------------- at rest, where every job is one rigid GPU


def singles_at_rest(facts: Facts) -> list[str]:
    """For worlds of flat queues and rigid jobs of one GPU, in which everything is clear."""
    return [*idle_gpus_have_a_reason(facts), *no_fair_reclaim_is_left(facts)]


def idle_gpus_have_a_reason(facts: Facts) -> Iterator[str]:
    """No job waits beside a free GPU unless a limit or somebody's reserved keeps it off."""
    for job in facts.jobs:
        if not ref.waits(facts, job) or not ref.fits_now(facts, job):
            continue
        with_it = holding(facts, job, GPU)
        queues = ref.chain(facts, job.spec.queue)
        if any(q.limit is not None and ref.held(with_it, q.name) > q.limit for q in queues):
            continue
        if ref.claimed(with_it) <= ref.pool(facts):
            yield f"{job.id} waits beside a free GPU"


def no_fair_reclaim_is_left(facts: Facts) -> Iterator[str]:
    """No queue below its share waits while one is so far above that taking one GPU would be fair."""
    exact, rounded = ref.fair_shares(facts)
    quotas = ref.effective_quotas(facts)
    asking = {job.spec.queue for job in facts.jobs if ref.waits(facts, job)}
    for mine in asking:
        for queue in facts.queues:
            theirs, has = queue.name, ref.held(facts, queue.name)
            if theirs == mine or has <= -(-exact[theirs] // GPU) * GPU or has <= quotas[theirs]:
                continue
            after = ref.held(facts, mine) + GPU
            fair = all(after * share[theirs] <= (has - GPU) * share[mine] for share in (exact, rounded))
            if after <= rounded[mine] and fair:
                yield f"{mine} holds {after - GPU} of {rounded[mine]} and waits; {theirs} holds {has}"
