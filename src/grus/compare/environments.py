"""Environments in which a workload is run, and the interface of their drivers.

    local                        this machine
    grus[=ADDRESS]               a pool of Grus
    kubernetes=CONTEXT[/NAMESPACE]
    slurm[=PARTITION]

A comparison calls these methods of a driver, in this order, with the same requests in every environment:

    prepare     once: bring the bundle there
    preflight   once: named verdicts; one that failed blocks this environment
    start       for every run: submit it
    wait        until it has ended, or the time is up
    collect     the files that the sampler wrote there
    clean_up    always, at the end: nothing is left except the environment's own records

A bundle is a folder: `code/` (the content of the workload's own folder) and `sampler.py`. In every
environment, a run is one command, started in any folder that holds the bundle and may be written to:

    python3 sampler.py ORDER FOLDER

ORDER is a file with `order.text()`. FOLDER is made if it is not there and becomes the run's own: the sampler
writes `record.jsonl` (see `records`) and `output.txt` (the workload's output) into it.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from grus.compare.workload import Workload
from grus.model.errors import BadInput, GrusError, Mistake

RECORD = "record.jsonl"
OUTPUT = "output.txt"
SAMPLER = "sampler.py"
CODE = "code"
USUAL_PERIOD = 1.0
"""Seconds between two samples, the same in every environment."""


class EnvironmentKind(StrEnum):
    LOCAL = "local"
    GRUS = "grus"
    KUBERNETES = "kubernetes"
    SLURM = "slurm"


@dataclass(frozen=True, slots=True)
class Environment:
    """One side of a comparison, as it was named on the command line."""

    kind: EnvironmentKind
    target: str = ""
    """Address, context or partition; empty for the usual one."""
    label: str = ""
    """Name in tables and folders; unique in a comparison."""

    def __str__(self) -> str:
        return f"{self.kind}={self.target}" if self.target else str(self.kind)


def parse(texts: Sequence[str]) -> tuple[Environment, ...]:
    """Parse the environments of `--env` and label them; raises BadInput with every error.

    The same one may be named twice: the difference is then the measurement's own noise.
    """
    found: list[Environment] = []
    mistakes: list[Mistake] = []
    for text in texts:
        name, _, target = text.partition("=")
        rule = _problem(name, target, given="=" in text)
        if rule:
            mistakes.append(Mistake("env", rule, text))
            continue
        kind = EnvironmentKind(name)
        found.append(Environment(kind, target, _label(kind, target, {one.label for one in found})))
    if len(texts) < 2:
        mistakes.append(Mistake("env", "at least two are needed to compare: --env local --env slurm"))
    if mistakes:
        raise BadInput(mistakes)
    return tuple(found)


def _problem(name: str, target: str, *, given: bool) -> str:
    if name not in list(EnvironmentKind):
        kinds = ", ".join(EnvironmentKind)
        return f"must be one of {kinds}, such as slurm=gpu or kubernetes=my-context/my-namespace"
    if given and not target:
        return f"says nothing behind the =; write {name} alone for the usual one"
    if name == EnvironmentKind.LOCAL and target:
        return "local is this machine, and takes nothing behind it"
    if name == EnvironmentKind.KUBERNETES and not target:
        return "needs a context of the kubeconfig: kubernetes=CONTEXT or kubernetes=CONTEXT/NAMESPACE"
    return ""


def _label(kind: EnvironmentKind, target: str, taken: set[str]) -> str:
    """Short, of letters that a folder's name may have, and not taken yet."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", target.partition("://")[2] or target).strip("-").lower()
    label = f"{kind}-{plain}"[:40] if plain else str(kind)
    number = 2
    while label in taken:
        label, number = f"{label.partition('_')[0]}_{number}", number + 1
    return label


# ------------------------------------------------------------------------------------------------ preflight


class PreflightStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It can run; what was found may explain a difference."""
    FAILED = "failed"
    """It cannot run so."""
    NOT_APPLICABLE = "not applicable"
    """There is nothing of the kind here: no image on a plain machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check before the first run."""

    name: str
    """The same words in every environment: `GPU computes`, `volume writable`."""
    verdict: PreflightStatus
    found: str
    """The observation, with its figure and unit."""
    fix: str = ""
    """The remedy; never empty for a warning or a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualStep:
    """Something that a person had to do by hand for this environment, and not for a workload in general."""

    what: str
    why: str = ""


# ----------------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run, as the sampler reads it. The same in every environment but for its name."""

    name: str
    """Unique in the comparison and fit for a folder's name: `local-3-load`."""
    argv: tuple[str, ...]
    setup: tuple[str, ...] = ()
    """Lines for the shell that run first, in the code's folder; timed as the stage `setup`."""
    env: tuple[tuple[str, str], ...] = ()
    data: tuple[str, ...] = ()
    """Paths, relative to the code, whose contents are hashed there."""
    period: float = USUAL_PERIOD
    load: int = 0
    """Processes that do nothing but compute beside the workload; -1 for one a core that it may use."""
    limit: float | None = None
    """Seconds after which the sampler ends the workload."""

    def text(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "argv": self.argv,
                "setup": self.setup,
                "env": dict(self.env),
                "data": self.data,
                "period": self.period,
                "load": self.load,
                "limit": self.limit,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that was handed in."""

    order: Order
    handle: str
    """The environment's identifier of the run: a process id, a job's id, a pod's name."""
    submitted_at: float
    """Time by this machine's clock, just before the run was submitted."""


class EndingKind(StrEnum):
    ENDED = "ended"
    """The sampler ended by itself; the record says with what code the workload did."""
    KILLED = "killed"
    """The environment ended it: preempted, evicted, out of memory, out of its time limit."""
    NEVER_STARTED = "never started"
    TIMED_OUT = "timed out"
    """It had not ended when the waiting was over; the driver has taken it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """End of a run, as the environment reports it."""

    end: EndingKind
    why: str = ""
    """The reason in the environment's words, if it has some."""
    queued: float | None = None
    """Seconds from handing it in until it had its resources; None where the environment has no queue."""
    startup: float | None = None
    """Seconds from having them until the sampler began; None where the clocks cannot be compared."""
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFiles:
    """Files that the run left, as they were written there; empty if there are none."""

    record: str
    output: str = ""
    """The last 64 KiB of what the workload printed."""
    files: tuple[tuple[str, str], ...] = field(default=())
    """More that helps to understand it: name and text (the batch script, the manifest)."""


class DriverStep(StrEnum):
    """Steps at which a driver can fail: a partial report names the step."""

    PREPARE = "prepare"
    PREFLIGHT = "preflight"
    START = "start"
    WAIT = "wait"
    COLLECT = "collect"
    RUN = "run"
    """The environment did its part, and the workload failed there."""
    CLEAN_UP = "clean up"


class DriverFailed(GrusError):
    """The environment could not do a step. The sentence says what, which, and what to do."""

    code = "environment_failed"


Tell = Callable[[str], None]
"""Takes a line of progress, such as `waiting in the queue (Resources)`."""


class Driver(Protocol):
    """One environment, as a comparison uses it. One thread calls it; nothing is running between two runs.

    Every method may raise DriverFailed, and nothing else for failures in the environment. After `clean_up`
    nothing that the driver started is left, in any case; it may be called more than once.
    """

    @property
    def environment(self) -> Environment: ...

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        """Bring the bundle there, once. Returns what a person had to do by hand for this environment."""
        ...

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        """Check everything and continue after a failure, so that all errors are seen at once."""
        ...

    def start(self, order: Order) -> Started:
        """Hand the run in. A run of that name which is still there from before is taken away first."""
        ...

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        """Wait until it has ended, at most so long, its time in a queue included; then it is taken back."""
        ...

    def collect(self, started: Started) -> CollectedFiles:
        """Return the files that it left, however it ended."""
        ...

    def clean_up(self) -> None:
        """Remove everything that is still there: runs, files, objects."""
        ...
