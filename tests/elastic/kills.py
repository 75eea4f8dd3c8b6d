"""kill -9 inside an all-reduce: `python -m tests.elastic.kills 200`, one JSON line.

Four workers train. One of them, any rank, kills itself a random moment after it has begun an exchange (or
just before). The others form a team and go on; another worker joins; and again. Half of the kills on gloo,
half on the backend that fails as NCCL does. After every step every worker writes down a hash of its
parameters: within a team they must be equal. The audit must find every sample once an epoch, and nobody may
have begun more than one step twice for one kill.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from grus.elastic import audit
from tests.elastic import curves
from tests.elastic.conductor import BACKENDS, Conductor
from tests.fork_server import TORCH, ForkServer

SIZE = 4
SAMPLES = 509
STEPS = 3
"""Between two events, at least."""
LATEST = 0.004
"""Seconds from the beginning of an exchange to the death, at most; an exchange takes about 0.001."""
WIDTH = 4096


@dataclass(slots=True)
class Figures:
    kills: int = 0
    hashes_equal: bool = True
    unequal: int = 0
    """Steps after which members of a team had different parameters."""
    steps_redone_max: int = 0
    audit_wrong: int = 0
    steps: int = 0
    teams: int = 0
    per_backend: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, folder: Path, kills: int, backend: str) -> None:
        lines = curves.lines(folder)
        unequal = curves.unequal(lines)
        found = audit.check(folder / "audit", SAMPLES)
        self.kills += kills
        self.unequal += len(unequal)
        self.hashes_equal = not self.unequal
        self.steps_redone_max = max(self.steps_redone_max, curves.redone(folder))
        self.audit_wrong += len(found.wrong)
        self.steps += found.steps
        self.teams += found.teams
        self.per_backend[backend] = self.per_backend.get(backend, 0) + kills
        for wrong in found.wrong[:10]:
            print(f"audit on {backend}: {wrong}", file=sys.stderr)


@contextmanager
def stage(forks: ForkServer, backend: str, **task: Any) -> Iterator[Conductor]:
    """A job in a folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="grus-") as folder,
        Conductor(forks, Path(folder) / "job", backend, **task) as conductor,
    ):
        yield conductor


def run(kills: int, backend: str, forks: ForkServer, figures: Figures, seed: int = 0) -> None:
    chance = random.Random(seed)
    with stage(forks, backend, epochs=10**6, samples=SAMPLES, width=WIDTH) as job:
        job.publish(job.spawn(SIZE))
        for _ in range(kills):
            done = job.go_on(STEPS)
            victim = chance.choice(job.members)
            delay = chance.uniform(0.0, LATEST) if chance.random() < 0.9 else -1.0
            (job.folder / "die" / victim.name).write_text(str(delay))
            job.gate(done + STEPS)
            new = job.begin()
            job.gone(victim)
            job.publish([one for one in job.members if one is not victim], lost=True)
            job.go_on(STEPS)
            job.until(lambda new=new: job.heard(new))  # type: ignore[misc]  # bound now
            job.publish([*job.members, new])
        job.go_on(STEPS)
        job.gate(None)
        job.pause()
        assert [job.code(one) for one in job.members] == [0] * SIZE, job.picture()
        figures.add(job.folder, kills, backend)


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    began = time.monotonic()
    figures = Figures()
    with ForkServer(*TORCH) as forks:
        for number, backend in enumerate(BACKENDS):
            run((kills + 1 - number) // len(BACKENDS), backend, forks, figures)
    figures.seconds = round(time.monotonic() - began, 1)
    print(json.dumps(asdict(figures)))
    sys.exit(bool(figures.unequal or figures.audit_wrong or figures.steps_redone_max > 1))


if __name__ == "__main__":
    main()
