"""Who searches, for real: Grus's server with trials as jobs; Optuna's study with a process for each GPU."""

import multiprocessing
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.storages.journal import JournalFileBackend

import benchmarks
import grus
from benchmarks.grus_server import Connection as ServerConnection
from benchmarks.grus_server import GrusServer
from benchmarks.machine import wait_for
from benchmarks.sweep_live_figures import Found, found, target_at
from benchmarks.sweep_live_training import LEFT, STEP, STEPS, UP, Note, Training, note, notes, task
from grus.model.sweep_search import Axis, Value

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

GPUS = 4
PATIENCE = 60.0
"""Seconds beyond its limit after which a search hangs."""
MOST_TRIALS = 10_000


class Search(ABC):
    """One that is under way from when it is made until its target was reported, or `limit` seconds."""

    def __init__(self, journal: Path, target: float, limit: float) -> None:
        self.journal, self.target = journal, target
        self.asked = time.time()
        self.until = self.asked + limit
        self._over = False

    def over(self) -> bool:
        if not self._over:
            passed = time.time() > self.until
            self._over = passed or target_at(notes(self.journal), self.target) is not None
            if self._over:
                self.stop()
        return self._over

    @abstractmethod
    def found(self) -> Found: ...

    @abstractmethod
    def stop(self) -> None: ...


def finish(searches: Sequence[Search], limit: float) -> list[Found]:
    """Wait for all of them."""

    def all_over() -> bool:
        under_way = [one for one in searches if not one.over()]  # each is asked: it stops itself
        return not under_way

    try:
        wait_for(all_over, limit + PATIENCE, "the searches", every=0.2)
    finally:
        for one in searches:
            one.stop()
    return [one.found() for one in searches]


# ------------------------------------------------------------------------------------------------- Grus


class GrusSearch(Search):
    """A sweep; `said` is what its section says beyond the defaults."""

    def __init__(
        self,
        server: GrusServer,
        journal: Path,
        seed: int,
        pace: float,
        target: float,
        limit: float,
        **said: object,
    ) -> None:
        super().__init__(journal, target, limit)
        self._server = server
        self._id = server.submit(job(journal, seed, pace, target, said))

    def stop(self) -> None:
        # A connection of its own: one that was kept for as long as a search may be closed by now.
        with closing(ServerConnection(self._server.address, self._server.token)) as connection:
            connection.ask("POST", f"/v1/jobs/{self._id}/stop")

    def found(self) -> Found:
        return found(notes(self.journal), self.target, GPUS, self.asked, self.until)


def job(
    journal: Path, seed: int, pace: float, target: float, said: Mapping[str, object]
) -> dict[str, object]:
    """As people write it."""
    roots = dict.fromkeys(str(Path(one.__path__[0]).parent) for one in (grus, benchmarks))
    program = [sys.executable, "-m", "benchmarks.sweep_live_program"]
    return {
        "name": journal.stem,
        "type": "sweep",
        "run": [*program, str(journal), str(pace), str(seed)],
        "workdir": str(journal.parent),
        "env": {"PYTHONPATH": ":".join(roots), "OPENBLAS_NUM_THREADS": "1"},
        "resources": {"gpu": 1},
        "checkpoint": {"path": f"saved/{journal.stem}.pickle", "grace": "30s"},
        "sweep": {
            "metric": "loss",
            "space": {axis.name: _written(axis) for axis in task().axes},
            "seed": seed,
            "stopping": {"most": STEPS},
            "budget": {"target": target, "trials": MOST_TRIALS},
            **said,
        },
    }


def _written(axis: Axis) -> object:
    if axis.choices:
        return list(axis.choices)
    return {"log" if axis.log else "uniform": [axis.low, axis.high]}


# ----------------------------------------------------------------------------------------------- Optuna


class OptunaSearch(Search):
    """A process for each GPU, all on one study in a journal file, as Optuna's pages tell it.

    Their time counts from when all of them are ready: no import is held against them.
    """

    def __init__(
        self, journal: Path, seed: int, pace: float, target: float, limit: float, setting: Mapping[str, int]
    ) -> None:
        context = multiprocessing.get_context("fork")
        ends = [context.Pipe() for _ in range(GPUS)]
        self._workers = [
            context.Process(
                target=_optimise, args=(rank, theirs, journal, seed, pace, dict(setting)), daemon=True
            )
            for rank, (_, theirs) in enumerate(ends)
        ]
        for worker in self._workers:
            worker.start()
        for ours, _ in ends:
            ours.recv()  # it is ready
        for ours, _ in ends:
            ours.send("go")
        super().__init__(journal, target, limit)

    def stop(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.join()

    def found(self) -> Found:
        return found(notes(self.journal), self.target, GPUS, self.asked, self.until, began=self.asked)


def _optimise(
    rank: int,
    parent: "Connection[str, str]",
    journal: Path,
    seed: int,
    pace: float,
    setting: dict[str, int],
) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name="live",
        storage=optuna.storages.JournalStorage(JournalFileBackend(f"{journal}.study")),
        # The workers must not ask alike: each has a seed of its own.
        sampler=optuna.samplers.TPESampler(seed=seed * GPUS + rank),
        pruner=optuna.pruners.SuccessiveHalvingPruner(**setting),
        load_if_exists=True,
    )

    def objective(trial: optuna.Trial) -> float:
        began = time.time()
        trained = Training(_asked(trial), seed)
        value = float("inf")

        def tell(kind: str) -> None:
            line = Note(kind=kind, at=time.time(), gpu=str(rank), trial=trial.number, began=began,
                        step=trained.done, value=value)  # fmt: skip
            note(journal, line)

        tell(UP)
        while trained.done < STEPS:
            value = trained.step(pace)
            tell(STEP)
            trial.report(value, trained.done)
            if trial.should_prune():
                tell(LEFT)
                raise optuna.TrialPruned
        tell(LEFT)
        return value

    parent.send("ready")
    parent.recv()
    study.optimize(objective)


def _asked(trial: optuna.Trial) -> dict[str, Value]:
    """Parameters of a trial, in Optuna's own words."""
    return {
        axis.name: axis.choices[trial.suggest_categorical(axis.name, range(len(axis.choices)))]
        if axis.choices
        else trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)
        for axis in task().axes
    }
