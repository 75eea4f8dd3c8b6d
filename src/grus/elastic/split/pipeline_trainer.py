"""Training whose model is split over its workers, from its start (or checkpoint) to its end or a pause.

    train_split(training)    on every worker of a job with `launch: per-gpu`, or under torchrun

Each worker holds a stage of the model and the state that belongs to it. If there are more workers than
stages, several copies share the batch. The set of workers is fixed for the attempt: a lost worker takes a
part of the model along, so the others end too, and the next attempt resumes from the checkpoint. At a pause
all save after the same step.
"""

import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from grus.elastic.data import sample_schedule
from grus.elastic.data.loader import Loader
from grus.elastic.data.sample_schedule import Micro, Progress
from grus.elastic.rendezvous.device_errors import OUT
from grus.elastic.split import stage_checkpoints
from grus.elastic.split.parallel_stage_layout import Captures, PipelineSplit, divide
from grus.elastic.split.rank_topology import Lost, RankPlacement, gpu_of, joined
from grus.elastic.split.stage_worker import StageRunner
from grus.elastic.training_loop.progress_reporter import StepReporter
from grus.elastic.training_loop.seeding import sow
from grus.elastic.training_loop.validate_arguments import SAVE_EVERY, checkpoint_folder
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.partition.placement_plan_file import Split
from grus.sdk import worker

RESULT = "model.pt"
"""The trained weights of the whole model: its `state_dict`."""
PATIENCE = 5.0
"""Seconds in which a job learns of the worker that was lost."""
LINES = 20
"""Maximum number of lines per epoch."""


def train_split(training: Training, split: Split | None = None, checkpoint: Path | None = None) -> None:
    """Train to the end, or to the next pause.

    Raises BadInput; ends the process when another worker is lost.
    """
    if training.data is None:
        raise BadInput([Mistake("data", "is needed to train")])
    folder = checkpoint_folder(checkpoint)
    worker.asked_to_end()
    run: _PipelineRun | None = None
    try:
        with joined() as place:
            run = _PipelineRun(training, split, folder, place)
            run.train()
    except Lost as error:
        _say_lost(run, folder, error)
        _let_go_first()
        raise SystemExit(OUT) from error


class _PipelineRun:
    """A run, seen from one worker."""

    def __init__(
        self, training: Training, split: Split | None, folder: Path | None, place: RankPlacement
    ) -> None:
        assert training.data is not None
        self._is = training
        self._place = place
        self._folder = folder
        gpu = gpu_of(place)
        captures = Captures(training, gpu)
        division = place.agreed(lambda: divide(training, place.world, gpu, captures, split))
        self.division: PipelineSplit = division
        self._say(_sentence(division))
        if folder is not None:
            stage_checkpoints.prepare(folder, place.rank % division.stages, division.stages)
        place.together()  # folders are there before anybody looks for what is in them
        self._program = captures[division.micro].program
        self.part = StageRunner(training, self._program, division, place, folder)
        self._loader = Loader(training.data(), seed=training.seed, device=place.device)
        together = division.micro * division.replicas
        self._samples = self._loader.samples // together * together
        if not self._samples:
            rule = (
                f"has {counted(self._loader.samples, 'sample')}, and a split step takes at least {together}"
            )
            raise BadInput([Mistake("data", rule)])
        self.at = Progress(*map(int, place.summed(self._first_of_all())))
        self._telling = StepReporter()
        self._every = float(os.environ.get("GRUS_CHECKPOINT_EVERY") or SAVE_EVERY)
        self._saved_at = time.monotonic()

    def _first_of_all(self) -> list[float]:
        at = self.part.progress if self._place.rank == 0 else Progress(0, 0, 0)
        return [at.epoch, at.cursor, at.step]

    def train(self) -> None:
        if self.at.step:
            self._say(f"going on from the checkpoint of step {self.at.step}")
        batches = None if self.part.idle else self._loader.batches(self._schedule())
        every = max(1, self._samples // self._is.size // LINES)
        while not sample_schedule.finished(self.at, self._is.epochs):
            count = len(self._micros(self.at)) // self.division.replicas
            taken = [] if batches is None else [batch for _, batch in islice(batches, count)]
            sow(sample_schedule.seed_of(self._is.seed, self.at.step, self._place.rank))
            loss = None if self.part.idle else self.part.step(taken)
            self.at = sample_schedule.after(self.at, self._samples, self._is.size)
            mean, pause, due = self._settled(loss)
            self._report(mean)
            if self.at.step % every == 0:
                self._say(f"step {self.at.step}, epoch {self.at.epoch}: loss {mean:.4f}")
            if pause:
                self._save()
                raise SystemExit(0)
            if due:
                self._save()
        self._save()
        self._report(None, now=True)
        self._finish()

    def _schedule(self) -> Iterator[Micro]:
        at = self.at
        while not sample_schedule.finished(at, self._is.epochs):
            yield from sample_schedule.share(self._micros(at), self.part.replica, self.division.replicas)
            at = sample_schedule.after(at, self._samples, self._is.size)

    def _micros(self, at: Progress) -> tuple[Micro, ...]:
        return sample_schedule.micros(at, self._samples, self._is.size, self.division.micro)

    def _settled(self, loss: float | None) -> tuple[float, bool, bool]:
        """The step's loss, whether the run is to pause, and whether to save: the same on all workers."""
        due = self._place.rank == 0 and time.monotonic() - self._saved_at >= self._every
        total, pause, save = self._place.summed([loss or 0.0, worker.should_pause(), due])
        self._telling.committed()
        return total / self.division.replicas, pause > 0, save > 0

    def _report(self, loss: float | None, *, now: bool = False) -> None:
        if self._place.rank:
            return
        at, batch = self.at, self._is.size
        left = sample_schedule.steps_left(at, self._samples, batch, self._is.epochs)
        figures: dict[str, float] = {
            "step": at.step,
            "epoch": at.epoch,
            "total": at.step + left,
            "batch": batch,
        }
        if loss is not None:
            figures["loss"] = loss
        self._telling.report({**figures, "world": self._place.world}, batch, now=now)

    def _save(self) -> None:
        if self._folder is None:
            return
        self.part.save(self.at)
        self._place.together()  # it is a checkpoint only when all parts are there
        self._saved_at = time.monotonic()
        self._telling.rested()
        if self._place.rank == 0:
            worker.saved()

    def _finish(self) -> None:
        """Leave the whole model where people find it."""
        if self._folder is None:
            return
        model = self.part.gathered(self._program)
        if model is not None:
            fresh = self._folder / f"{RESULT}.new"
            torch.save(model, fresh)
            fresh.replace(self._folder / RESULT)
        self._say(
            f"done after {counted(self.at.step, 'step')}; the trained model is in {self._folder / RESULT}"
        )

    def _say(self, text: str) -> None:
        if self._place.rank == 0:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


def _sentence(division: PipelineSplit) -> str:
    copies = f" in {division.replicas} copies" if division.replicas > 1 else ""
    return (
        f"the model is split into {division.stages} stages{copies}; a step has {division.micro_batches} "
        f"micro-batches of {division.micro} for each ({division.rhythm})"
    )


def _say_lost(run: _PipelineRun | None, folder: Path | None, error: Lost) -> None:
    mine = f"this is stage {run.part.number}" if run is not None else "before the first step"
    found = stage_checkpoints.newest(folder) if folder is not None else None
    where = f"the checkpoint of step {found[1]}" if found is not None else "the first step"
    sys.stderr.write(
        f"grus: another worker is lost ({mine}), and with it a part of the model: nobody can go on "
        f"without it. The job's next attempt (`retries`) begins with {where}.\n{error}\n"
    )
    sys.stderr.flush()


def _let_go_first() -> None:
    """Let the lost worker end first: in a job, the first exit gives the reason why the attempt ended."""
    deadline = time.monotonic() + (PATIENCE if "GRUS_JOB" in os.environ else 0.0)
    while not worker.asked_to_end() and time.monotonic() < deadline:
        time.sleep(0.05)  # the others are asked to end when its end is known
