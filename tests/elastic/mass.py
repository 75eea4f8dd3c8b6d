"""Eight workers to one and back, again and again: `python -m tests.elastic.mass 20`, one JSON line.

Seven of eight are told to leave at once (orders and SIGTERM together, as the control plane does it), and
seven others join the one that stays, which is not always the first. Nobody may end with anything but 0, and
no step may be done twice: all of it was planned.
"""

import json
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from grus.elastic import audit
from tests.elastic import curves
from tests.elastic.conductor import BACKENDS, Conductor
from tests.elastic.kills import SAMPLES, stage
from tests.fork_server import TORCH, ForkServer

SIZE = 8


@dataclass(slots=True)
class Figures:
    rounds: int = 0
    left: int = 0
    """Workers that were told to leave."""
    crashes: int = 0
    """Those that ended with anything but 0."""
    codes: dict[str, int] = field(default_factory=dict)
    steps_redone_max: int = 0
    unequal: int = 0
    audit_wrong: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        return bool(self.crashes or self.steps_redone_max or self.unequal or self.audit_wrong)


def run(rounds: int, backend: str, forks: ForkServer, figures: Figures, **task: Any) -> None:
    chance = random.Random(rounds)
    with stage(forks, backend, epochs=10**6, samples=SAMPLES, **task) as job:
        job.publish(job.spawn(SIZE))
        for _ in range(rounds):
            job.go_on(2)
            new = job.spawn(SIZE - 1)
            _shrink(job, chance, figures)
            job.go_on(2)
            job.publish([*job.members, *new])
        job.go_on(2)
        job.gate(None)
        job.pause()
        figures.rounds += rounds
        for worker in job.workers:
            code = str(job.code(worker))
            figures.codes[code] = figures.codes.get(code, 0) + 1
            if code != "0":
                figures.crashes += 1
                print(f"{worker.name} ended with {code}:\n{job.output(worker)}", file=sys.stderr)
        figures.steps_redone_max = max(figures.steps_redone_max, curves.redone(job.folder))
        figures.unequal += len(curves.unequal(curves.lines(job.folder)))
        figures.audit_wrong += len(audit.check(job.folder / "audit", SAMPLES).wrong)


def _shrink(job: Conductor, chance: random.Random, figures: Figures) -> None:
    stays = chance.choice(job.members)
    leavers = [one for one in job.members if one is not stays]
    job.publish([stays])
    for one in leavers:
        job.signal(one, signal.SIGTERM)
    job.go_on(1)
    job.gone(*leavers)
    figures.left += len(leavers)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    began = time.monotonic()
    figures = Figures()
    with ForkServer(*TORCH) as forks:
        for number, backend in enumerate(BACKENDS):
            run((rounds + 1 - number) // len(BACKENDS), backend, forks, figures)
    figures.seconds = round(time.monotonic() - began, 1)
    print(json.dumps(asdict(figures)))
    sys.exit(figures.wrong)


if __name__ == "__main__":
    main()
