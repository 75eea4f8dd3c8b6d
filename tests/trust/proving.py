"""Runs one proof, with or without a bug planted, in a process of its own, and tells whether it held.

A proof is a text: the address of a test as pytest takes it, or `simulation:SEED` (or a range of seeds, up to
the first that is broken). Each runs in a fork, so that nothing of a plant is left behind, and none waits for
another's imports. A proof that could not be run
(no such test, an error while collecting, out of time) has neither held nor caught anything.
"""

import ctypes
import importlib
import io
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pytest

from grus.engines.local import process_kill, processes
from tests.trust import simulate
from tests.trust.bugs.planting import Bug

ROOT = Path(__file__).resolve().parents[2]
SIMULATION = "simulation:"
LONGEST = 120.0
"""Seconds that a proof may take."""
OPTIONS = ("-x", "-p", "no:cacheprovider", "--assert=plain")
"""To the first failure, without a trace in the project, and nothing rewritten: hundreds of forks do this."""


PR_SET_CHILD_SUBREAPER = 36
"""Of prctl(2): orphans below become children."""
HEAVY = {"tests/elastic/": "torch"}
"""What takes long to import, by the proofs that need it: done once, before the forks."""


class Verdict(StrEnum):
    HELD = "held"
    """Nothing wrong was seen."""
    BROKEN = "broken"
    """A promise was not kept: with a bug planted, the bug is caught."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One proof to be run, with this bug planted or none."""

    proof: str
    bug: Bug | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    attempt: Attempt
    verdict: Verdict
    words: str
    """What was broken, in a line."""
    seconds: float


def kind(proof: str) -> str:
    """What sort of proof it is, for people."""
    if proof.startswith(SIMULATION):
        return "simulation"
    name = proof.partition("::")[0]
    known = {"test_chaos": "storm", "test_crash": "crash points", "test_core_machine": "naive model"}
    return known.get(Path(name).stem, "test")


# ------------------------------------------------------------------------------------ many at a time


def run_all(attempts: Sequence[Attempt], at_once: int) -> Iterator[Outcome]:
    """Run these, so many at a time; told as they end."""
    context = multiprocessing.get_context("fork")
    for place, module in HEAVY.items():
        if any(attempt.proof.startswith(place) for attempt in attempts):
            importlib.import_module(module)
    waiting = list(reversed(attempts))
    running: dict[Connection, tuple[multiprocessing.process.BaseProcess, Attempt, float]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            attempt = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            begun = context.Process(target=_child, args=(attempt, theirs))
            begun.start()
            theirs.close()
            running[ours] = (begun, attempt, time.monotonic())
        soonest = min(began for _, _, began in running.values()) + LONGEST
        ready = wait(list(running), max(0.0, soonest - time.monotonic()))
        overdue = [end for end, (_, _, began) in running.items() if time.monotonic() - began > LONGEST]
        for end in {*ready, *overdue}:
            assert isinstance(end, Connection)
            process, attempt, began = running.pop(end)
            verdict, words = _answer(end) if end in ready else (Verdict.NOT_RUN, f"longer than {LONGEST:g} s")
            if end not in ready:
                _end_with_all_below(process)
            process.join()
            end.close()
            yield Outcome(attempt, verdict, words, time.monotonic() - began)


def _answer(end: Connection) -> tuple[Verdict, str]:
    try:
        verdict, words = end.recv()
    except EOFError:
        return Verdict.NOT_RUN, "its process died"
    return Verdict(verdict), str(words)


def _end_with_all_below(process: multiprocessing.process.BaseProcess) -> None:
    assert process.pid is not None
    process_kill.sweep(lambda: processes.descendants([process.pid or 0], processes.scan()))
    process.kill()


def _child(attempt: Attempt, told: Connection) -> None:
    """The life of the fork. Whatever a bug leaves standing ends with it: threads, and processes below it."""
    os.chdir(ROOT)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    planted = attempt.bug.planted() if attempt.bug else nullcontext()
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), planted:
            verdict, words = _prove(attempt.proof)
    except Exception as error:  # noqa: BLE001 - the edge of a process: a plant that cannot be planted is told
        verdict, words = Verdict.NOT_RUN, f"{type(error).__name__}: {error}"
    process_kill.sweep(process_kill.below_me)
    told.send((verdict, words))
    told.close()
    os._exit(0)


def _prove(proof: str) -> tuple[Verdict, str]:
    prove: Callable[[str], tuple[Verdict, str]] = _simulated if proof.startswith(SIMULATION) else _tested
    return prove(proof)


# --------------------------------------------------------------------------------------- two kinds


class _Witness:
    """Remembers the first test that failed, and how."""

    def __init__(self) -> None:
        self.words = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.words:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = str(crash.message if crash is not None else report.longrepr).strip().splitlines()
            what = said[0] if said and said[0] != "AssertionError" else ""
            file, _, test = report.nodeid.partition("::")
            self.words = f"{Path(file).name}::{test}" + (f": {what}" if what else "")


def _tested(proof: str) -> tuple[Verdict, str]:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none of these tests needs any
    witness = _Witness()
    code = pytest.main([*OPTIONS, proof], plugins=[witness])
    if code == pytest.ExitCode.TESTS_FAILED:
        return Verdict.BROKEN, witness.words
    if code == pytest.ExitCode.OK:
        return Verdict.HELD, ""
    return Verdict.NOT_RUN, f"pytest ended with {int(code)}"


def _simulated(proof: str) -> tuple[Verdict, str]:
    first, _, last = proof.removeprefix(SIMULATION).partition("-")
    for seed in range(int(first), int(last or first) + 1):
        found = simulate.run(seed).violation
        if found is not None:
            return Verdict.BROKEN, f"seed {seed}: {found.invariant}: {found.text}"
    return Verdict.HELD, ""
