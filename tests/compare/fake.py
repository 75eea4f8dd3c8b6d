"""An environment that runs nothing: it says of every run what it was told to say."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from grus.compare.environments import (
    Check,
    CollectedFiles,
    DriverFailed,
    DriverStep,
    Ending,
    EndingKind,
    Environment,
    ManualStep,
    Order,
    PreflightStatus,
    Started,
    Tell,
)
from grus.compare.workload import Workload


def a_record_text(order: Order, *, code: str = "c0de", exit_code: int = 0, seconds: float = 1.0) -> str:
    start = {
        "kind": "start",
        "version": 1,
        "at": 1000.0,
        "name": order.name,
        "period": order.period,
        "load": order.load,
        "argv": order.argv,
        "node": {"host": "n1", "cores": 8, "allowed": 8},
        "code": {"path": "code", "digest": code},
        "data": [],
        "given": [],
    }
    lines = [
        start,
        {"kind": "stage", "t": 0.0, "name": "run"},
        {"kind": "report", "t": 1.0, "figures": {"step": 0, "batch": 8}},
        {"kind": "report", "t": 1.0 + seconds, "figures": {"step": 10, "batch": 8}},
        {"kind": "end", "t": 2.0 + seconds, "code": exit_code},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


class FakeDriver:
    """`log` is shared by all of a comparison, so that the order of their runs can be seen."""

    def __init__(
        self,
        environment: Environment,
        log: list[str],
        *,
        fails_at: DriverStep | None = None,
        interrupted: str = "",
        code: Callable[[Order], str] = lambda order: "c0de",
        exit_code: Callable[[Order], int] = lambda order: 0,
        checks: Sequence[Check] = (),
    ) -> None:
        self.environment = environment
        self.log, self.fails_at, self.interrupted, self.cleaned = log, fails_at, interrupted, 0
        self._code, self._exit_code, self._checks = code, exit_code, checks

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        self._may_fail(DriverStep.PREPARE)
        assert (bundle / "sampler.py").is_file()
        assert (bundle / "code").is_dir()
        return (ManualStep(what="log in"),)

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        self._may_fail(DriverStep.PREFLIGHT)
        return (Check(name="free disk", verdict=PreflightStatus.OK, found="9 GB"), *self._checks)

    def start(self, order: Order) -> Started:
        self._may_fail(DriverStep.START)
        self.log.append(order.name)
        return Started(order=order, handle="1", submitted_at=990.0)

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        self._may_fail(DriverStep.WAIT)
        if self.interrupted == started.order.name:
            raise KeyboardInterrupt
        tell("running")
        return Ending(end=EndingKind.ENDED, queued=3.0, startup=1.0)

    def collect(self, started: Started) -> CollectedFiles:
        self._may_fail(DriverStep.COLLECT)
        order = started.order
        text = a_record_text(order, code=self._code(order), exit_code=self._exit_code(order))
        return CollectedFiles(record=text, output="all\nlast words\n")

    def clean_up(self) -> None:
        self.cleaned += 1

    def _may_fail(self, step: DriverStep) -> None:
        if self.fails_at is step:
            raise DriverFailed(f"{self.environment.label} has no {step}")
