"""Entry: a job as the scheduler sees it, with its request and its holdings ready for arithmetic."""

from grus.model.activity_labels import Tag
from grus.model.jobs import Job
from grus.scheduler.elasticity.throughput_outlook import Ladder, Outlook, SizeStep
from grus.scheduler.placement.gang_placement import Place, held_by_type
from grus.scheduler.queues.gpu_type_quota import covers
from grus.scheduler.queues.ordering import Age, Alike
from grus.scheduler.queues.policies import Policy
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.queues.user_limits import USER_LIMIT, Allowance
from grus.scheduler.state.request_shapes import Shape


class Entry:
    """One job of a snapshot."""

    __slots__ = (
        "age",
        "alike",
        "allowance",
        "backfill_until",
        "blocked",
        "broken",
        "delayed",
        "generation",
        "held",
        "id",
        "job",
        "ladders",
        "leaving",
        "never",
        "outlook",
        "places",
        "priority",
        "queue",
        "running",
        "saved_at",
        "shape",
        "size",
        "started_at",
        "tag",
        "terms",
        "user",
        "waiting",
    )

    def __init__(
        self,
        job: Job,
        queue: QueueNode,
        shape: Shape,
        blocked: str,
        policy: Policy,
        outlook: Outlook | None = None,
        tag: Tag | None = None,
    ) -> None:
        self.job = job
        self.id = job.id
        self.queue = queue
        self.shape = shape
        self.user = job.user
        self.allowance: Allowance | None = None
        """Limit and use of its user; None for a user without a limit."""
        self.outlook = outlook
        """Speeds at other sizes; None if not measured."""
        self.tag = tag
        """Tag recognized while it ran; None without a valid one."""
        self.ladders: dict[bool, tuple[int, Ladder]] = {}
        """Values of sizes relative to the present one, taken from others and on idle GPUs; computed on first
        use.
        """
        self.terms: tuple[float | None, SizeStep | None] | None = None
        """Price of its next step down and gain of its next step up, from the present size."""
        self.never = job.spec.never_preempted
        self.priority = job.spec.priority - (0 if self.never else policy.demotion(job, outlook))
        self.age: Age = (policy.rank(job, outlook), job.id)
        self.alike: Alike = (shape.key, job.spec.max_runtime)
        self.blocked = blocked
        self.started_at = job.started_at or job.submitted_at
        self.saved_at = max(job.saved_at or 0.0, self.started_at)
        """Time of its last checkpoint: later work would be lost."""
        self.generation = job.generation
        self.backfill_until = job.backfill_until
        self.places: tuple[Place, ...] = ()
        """Placements of the present round."""
        self.leaving: tuple[Place, ...] = ()
        """Placements given back, not yet confirmed free."""
        self.held = 0
        """Micro-GPUs of `places`."""
        self.size = 0
        """Replicas of the elastic part."""
        self.running = False
        """True if it holds placements that it keeps."""
        self.waiting = False
        self.delayed = False
        """True while it waits for its back-off to pass."""
        self.broken = ""
        """Name of a device of its own that is gone or unhealthy."""

    def breaks(self, amount: int, pool: int, horizon: int) -> str:
        """Return the hard rule that would break if it held `amount` more, of its user or its queue; or ""."""
        if self.lacks_allowance(amount, horizon):
            return USER_LIMIT
        return self.queue.breaks(amount, pool, horizon)

    def lacks_allowance(self, amount: int, horizon: int) -> bool:
        """Return True if its user may not hold that much more."""
        return self.allowance is not None and self.allowance.lacks(amount, horizon)

    def shift(self, amount: int, horizon: int) -> None:
        """Change the holdings of its queue and its user at a horizon."""
        self.queue.shift(amount, horizon)
        if self.allowance is not None:
            self.allowance.held[horizon] += amount

    def weighed(self, present: int) -> Outlook | None:
        """Return the outlook by which its sizes are weighed at so many replicas; None if nothing is known, or
        if a user wants it larger than it is: then the benefit does not matter.
        """
        wanted = self.job.size
        return None if wanted is not None and present < wanted.low else self.outlook

    @property
    def unchanged_since(self) -> float:
        """Return the time since which it has had its present workers."""
        return max(self.started_at, self.job.team_at or 0.0)

    @property
    def held_minimum(self) -> int:
        """Return the part of its holdings below which it could not run, in micro-GPUs."""
        return self.held - self.surplus if self.running else 0

    @property
    def surplus(self) -> int:
        """Return the micro-GPUs that it holds above its minimum."""
        shape = self.shape
        if shape.elastic < 0 or not self.running:
            return 0
        part = shape.parts[shape.elastic]
        return max(0, self.size - part.low) * part.unit

    def minimum_by_type(self) -> dict[str, int]:
        """Return `held_minimum` by type of GPU: of the elastic part its first replicas."""
        if not self.running:
            return {}
        elastic = self.shape.elastic
        mine = [place for place in self.places if place.part != elastic]
        if elastic >= 0:
            first = sorted((p for p in self.places if p.part == elastic), key=lambda p: p.number)
            mine += first[: self.shape.parts[elastic].low]
        return held_by_type(mine)

    def measure(self) -> None:
        """Compute `held` and `size` from the places."""
        self.held = sum(place.held for place in self.places)
        elastic = self.shape.elastic
        self.size = sum(1 for place in self.places if place.part == elastic) if elastic >= 0 else 0


def count_entry(entry: Entry, sign: int) -> None:
    """Count the entry's staying placements for its queue: by user, type, non-preemptible, surplus."""
    queue = entry.queue
    queue.users[entry.user] = queue.users.get(entry.user, 0) + sign * entry.held
    if entry.never:
        queue.shift_never({kind: sign * held for kind, held in entry.minimum_by_type().items()})
    queue.surplus += sign * entry.surplus
    for level in queue.path:
        if level.by_type is not None:
            for place in entry.places:
                for device in place.devices:
                    kind = covers(level.by_type, device.type)
                    level.held_by_type[kind] = level.held_by_type.get(kind, 0) + sign * place.share
