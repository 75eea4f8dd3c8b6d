"""A job as the scheduler sees it: what it asks for and what it has, ready for arithmetic."""

from grus.model.jobs import Job
from grus.model.tags import Tag
from grus.scheduling.gang import Place, held_by_type
from grus.scheduling.ordering import Age, Alike
from grus.scheduling.outlook import Ladder, Outlook, Step
from grus.scheduling.policies import Policy
from grus.scheduling.quota import QueueNode
from grus.scheduling.shapes import Shape
from grus.scheduling.typed_quota import covers


class Entry:
    """One job of a snapshot."""

    __slots__ = (
        "age",
        "alike",
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
        self.outlook = outlook
        """What is known of its speed at other sizes; None where nobody measured it."""
        self.tag = tag
        """What was recognised of it while it ran; None where nobody says anything."""
        self.ladders: dict[bool, tuple[int, Ladder]] = {}
        """Worth of each size, seen from the one that it has, taken from others and on idle GPUs; made
        when it is first asked for."""
        self.terms: tuple[float | None, Step | None] | None = None
        """What it asks for its next step down and gains by its next step up, from the size that it has."""
        self.never = job.spec.never_preempted
        self.priority = job.spec.priority - (0 if self.never else policy.demotion(job, outlook))
        self.age: Age = (policy.rank(job, outlook), job.id)
        self.alike: Alike = (shape.key, job.spec.max_runtime)
        self.blocked = blocked
        self.started_at = job.started_at or job.submitted_at
        self.saved_at = max(job.saved_at or 0.0, self.started_at)
        """Its last checkpoint: what it did since would be lost with it."""
        self.generation = job.generation
        self.backfill_until = job.backfill_until
        self.places: tuple[Place, ...] = ()
        """Seats of the present generation."""
        self.leaving: tuple[Place, ...] = ()
        """Seats given back, not yet proven free."""
        self.held = 0
        """Micro-GPUs of `places`."""
        self.size = 0
        """Replicas of the elastic part."""
        self.running = False
        """Holds seats that it is meant to keep."""
        self.waiting = False
        self.delayed = False
        """Waiting for its back-off to pass."""
        self.broken = ""
        """Which of its devices is gone or unhealthy."""

    def weighed(self, present: int) -> Outlook | None:
        """Outlook by which its sizes are weighed at so many replicas; None where nothing is known, or a
        person wants it larger than it is: then the question is not what pays."""
        wanted = self.job.size
        return None if wanted is not None and present < wanted.low else self.outlook

    @property
    def unchanged_since(self) -> float:
        """Since when it has had its present workers."""
        return max(self.started_at, self.job.team_at or 0.0)

    @property
    def held_minimum(self) -> int:
        """The part of what it holds below which it could not run, in micro-GPUs."""
        return self.held - self.surplus if self.running else 0

    @property
    def surplus(self) -> int:
        """Micro-GPUs that it holds above its minimum."""
        shape = self.shape
        if shape.elastic < 0 or not self.running:
            return 0
        part = shape.parts[shape.elastic]
        return max(0, self.size - part.low) * part.unit

    def minimum_by_type(self) -> dict[str, int]:
        """`held_minimum` by type of GPU: of the elastic part its first replicas."""
        if not self.running:
            return {}
        elastic = self.shape.elastic
        mine = [place for place in self.places if place.part != elastic]
        if elastic >= 0:
            first = sorted((p for p in self.places if p.part == elastic), key=lambda p: p.number)
            mine += first[: self.shape.parts[elastic].low]
        return held_by_type(mine)

    def measure(self) -> None:
        """Work out `held` and `size` from the places."""
        self.held = sum(place.held for place in self.places)
        elastic = self.shape.elastic
        self.size = sum(1 for place in self.places if place.part == elastic) if elastic >= 0 else 0


def count_entry(entry: Entry, sign: int) -> None:
    """Count what the entry's staying seats mean to its queue: by user, type, never-preempted, surplus."""
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
