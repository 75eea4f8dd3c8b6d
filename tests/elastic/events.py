"""A run to which everything happens: `python -m tests.elastic.events 100`, one JSON line.

Workers come, go, die and hang at random moments (seeded), two things at once among them. In the end every
sample must have been used exactly once an epoch, and the losses of all steps must be those of a run with one
process to which nothing happened. So for a classifier with dropout and a schedule of the learning rate, in
double and in single precision, and for a GAN of two models and two optimizers; on gloo and on the backend
that fails as NCCL does.

**How equal.** A step's gradient is the same sum of the same numbers, whoever computes them; only the order of
summation differs with the number of workers, and with it the last bit. An error of one bit does not stay
one: it goes through the optimizer and into the next step. In double precision (one bit: 2e-16) the losses
differed by 4e-16 at most in runs of this length; 1e-9 is asked for, since a sample used twice, a dropout mask
of another seed, a step of the schedule too many or an update applied twice each change a loss by more than
1e-4. In single precision (one bit: 6e-8) they differed by 2e-7; 1e-5 is asked for.
"""

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from grus.elastic import audit
from tests.elastic import curves
from tests.elastic.conductor import WHOLE, Conductor, Worker
from tests.elastic.kills import stage
from tests.fork_server import TORCH, ForkServer

TOLERANCE = {"float64": 1e-9, "float32": 1e-5}
MOST = 4
SAMPLES = 509
BATCH = 48
STEPS_AN_EVENT = 4
STEPS_AN_EPOCH = -(-SAMPLES // BATCH)
HANG_AFTER = 0.3
PACE = 0.001
LATEST = 0.03
"""Seconds from when the workers may go on to the event, at most: some steps."""


@dataclass(slots=True)
class Figures:
    events: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    distance_float64: float = 0.0
    """The largest relative difference of any loss from the undisturbed run."""
    distance_float32: float = 0.0
    audit_wrong: int = 0
    unequal: int = 0
    steps_redone_max: int = 0
    steps: int = 0
    teams: int = 0
    epochs: int = 0
    exits_wrong: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        return (
            self.distance_float64 > TOLERANCE["float64"]
            or self.distance_float32 > TOLERANCE["float32"]
            or bool(self.audit_wrong or self.unequal or self.exits_wrong)
            or self.steps_redone_max > 1
        )


@dataclass(slots=True)
class Story:
    """One run and what happens to it."""

    job: Conductor
    chance: random.Random
    kinds: Counter[str] = field(default_factory=Counter)
    killed: set[str] = field(default_factory=set)
    new: list[Worker] = field(default_factory=list)
    """Workers that are ready to join."""

    def happen(self) -> None:
        """The next event, once the workers have done some steps; returns when a whole team goes on."""
        kinds: dict[str, Callable[[], None]] = {
            "grow": self.grow,
            "shrink": self.shrink,
            "kill": self.kill,
            "hang": self.hang,
            "kill inside": self.kill_inside,
            "kill in a resize": self.kill_in_resize,
        }
        size = len(self.job.members)
        possible = [kind for kind in kinds if size < MOST or kind != "grow"]
        if size == 1:
            possible = ["grow", "kill in a resize"]
        kind = self.chance.choice(possible)
        self.kinds[kind] += 1
        room = MOST - len(self.job.members)
        wanted = {"grow": self.chance.randint(1, max(1, room)), "kill in a resize": 1}.get(kind, 0)
        self.new = self.job.spawn(wanted)
        self.job.gate(max(self.job.at(one)[1] for one in self.job.members) + STEPS_AN_EVENT)
        time.sleep(self.chance.uniform(0.0, LATEST))  # no condition: any moment will do
        kinds[kind]()
        self.job.go_on(1)

    def grow(self) -> None:
        self.job.publish([*self.job.members, *self.new])

    def shrink(self) -> None:
        self.job.publish(self._some_stay())

    def kill(self) -> None:
        stay = self._some_stay()
        self._lose([one for one in self.job.members if one not in stay])

    def kill_inside(self) -> None:
        victim = self.chance.choice(self.job.members)
        (self.job.folder / "die" / victim.name).write_text(str(self.chance.uniform(0.0, 0.003)))
        self.job.until(lambda: not self.job.alive(victim) or self._all_wait())
        self._lose([victim])

    def kill_in_resize(self) -> None:
        """A joiner or one that was there dies while the new team is being formed."""
        only = len(self.job.members) == 1  # then nobody else has anything to go on from
        self.grow()
        victim = self.chance.choice(self.new if only else self.job.members)
        time.sleep(self.chance.uniform(0.0, 0.02))  # no condition: any moment will do
        self._lose([victim])

    def hang(self) -> None:
        """Stopped, not dead: the others complain, and then it is killed."""
        victim = self.chance.choice(self.job.members)
        self.job.signal(victim, signal.SIGSTOP)
        others = [one for one in self.job.members if one is not victim]
        self.job.until(lambda: any(self.job.word(one).get("waits") for one in others))
        self._lose([victim])

    def _some_stay(self) -> list[Worker]:
        members = self.job.members
        chosen = set(self.chance.sample(members, self.chance.randint(1, len(members) - 1)))
        return [one for one in members if one in chosen]

    def _lose(self, victims: Sequence[Worker]) -> None:
        for victim in victims:
            self.killed.add(victim.name)
            if self.job.alive(victim):
                self.job.kill(victim)
        self.job.publish([one for one in self.job.members if one not in victims], lost=True)

    def _all_wait(self) -> bool:
        """At the gate: nobody exchanges anything, so nobody dies of it."""
        return len({self.job.at(one) for one in self.job.members}) == 1


def run(events: int, backend: str, program: str, dtype: str, forks: ForkServer, figures: Figures) -> None:
    epochs = -(-2 * STEPS_AN_EVENT * (events + 2) // STEPS_AN_EPOCH)
    task = {
        "program": program,
        "dtype": dtype,
        "epochs": epochs,
        "samples": SAMPLES,
        "batch": BATCH,
        "hang_after": HANG_AFTER,
        "pace": PACE,
    }
    with stage(forks, "gloo", **task) as quiet:
        quiet.alone()
        expected = curves.curve(curves.lines(quiet.folder))
    with stage(forks, backend, **task) as job:
        story = Story(job, random.Random(f"{events} {backend} {program} {dtype}"))
        job.publish(job.spawn(2))
        job.go_on(STEPS_AN_EVENT)
        for _ in range(events):
            story.happen()
        job.gate(None)
        job.gone(*job.workers, seconds=WHOLE)
        exits = {job.code(one) for one in job.workers if one.name not in story.killed}
        for one in job.workers:
            if one.name not in story.killed and job.code(one) != 0:
                print(f"{one.name} ended with {job.code(one)}:\n{job.output(one)}", file=sys.stderr)
        lines = curves.lines(job.folder)
        distance = curves.distance(curves.curve(lines), expected)
        found = audit.check(job.folder / "audit", SAMPLES, epochs)
        redone = curves.redone(job.folder)
    print(f"{program} {dtype} {backend}: {distance:.2e}, {found}", file=sys.stderr)
    kinds = Counter(figures.kinds) + story.kinds
    figures.events += events
    figures.kinds = dict(kinds)
    figures.distance_float64 = max(figures.distance_float64, distance if dtype == "float64" else 0.0)
    figures.distance_float32 = max(figures.distance_float32, distance if dtype == "float32" else 0.0)
    figures.audit_wrong += len(found.wrong)
    figures.unequal += len(curves.unequal(lines))
    figures.steps_redone_max = max(figures.steps_redone_max, redone)
    figures.steps += found.steps
    figures.teams += found.teams
    figures.epochs += found.epochs
    figures.exits_wrong += exits != {0}


CASES = [
    ("classifier", "float64", "gloo"),
    ("classifier", "float32", "nccl-like"),
    ("gan", "float64", "nccl-like"),
    ("gan", "float64", "gloo"),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.elastic.events", description=__doc__.split("\n")[0]
    )
    parser.add_argument("events", type=int, nargs="?", default=100, help="for each of the cases")
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this one")
    asked = parser.parse_args()
    began = time.monotonic()
    figures = Figures()
    with ForkServer(*TORCH) as forks:
        for program, dtype, backend in CASES if asked.case is None else [CASES[asked.case]]:
            run(asked.events, backend, program, dtype, forks, figures)
    figures.seconds = round(time.monotonic() - began, 1)
    print(json.dumps(asdict(figures)))
    sys.exit(figures.wrong)


if __name__ == "__main__":
    main()
