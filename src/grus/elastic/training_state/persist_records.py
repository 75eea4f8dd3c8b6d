"""Data that outlives a step: checkpoints, the audit, reports; all from this worker's point of view."""

import logging
import os
import time
from typing import Any

from grus.elastic.audit import Audit, Key
from grus.elastic.data import sample_schedule
from grus.elastic.data.sample_schedule import Micro, Progress
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.progress_reporter import StepReporter
from grus.elastic.training_loop.validate_arguments import ONLY, Arguments
from grus.elastic.training_state.checkpoints import Checkpoints
from grus.elastic.training_state.state_sync import TrainingState
from grus.sdk import worker

log = logging.getLogger(__name__)


class Keeping:
    def __init__(self, arguments: Arguments, group: Group, standing: TrainingState, samples: int) -> None:
        self._is = arguments
        self._group = group
        self._at = standing
        self._samples = samples
        self.telling = StepReporter()
        self._audit = Audit(arguments.audit, _name()) if arguments.audit is not None else None
        self._order: tuple[int, list[int]] = (-1, [])
        self._checkpoints = None
        if arguments.checkpoint is not None:
            self._checkpoints = Checkpoints(arguments.checkpoint, on_saved=lambda _: worker.saved())
            self._checkpoints.check()
        self._saved_at = time.monotonic()

    # -------------------------------------------------------------------------------------- checkpoints

    def load(self) -> dict[str, Any] | None:
        """The newest whole checkpoint, if there is one."""
        found = self._checkpoints.load() if self._checkpoints is not None else None
        if found is None:
            return None
        log.info("going on from the checkpoint of step %d", found[0])
        return found[1]

    def save_if_due(self) -> None:
        """Save in the background if due. All workers are alike
        between two steps, so that one of them is enough.
        """
        if self._group.rank == 0 and self.due():
            self._save(wait=False)

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return time.monotonic() - self._saved_at >= self._is.checkpoint_every

    def save_together(self) -> None:
        """Save in the background, where each worker has only a part: all of them at the same step."""
        self._save(wait=False)

    def save(self) -> None:
        """Now, and wait until it is durable."""
        self._save(wait=True)
        self.wait()

    def wait(self) -> None:
        """Wait until the checkpoint being written is durable."""
        if self._checkpoints is not None:
            self._checkpoints.wait()

    def _save(self, *, wait: bool) -> None:
        if self._checkpoints is not None:
            self._saved_at = time.monotonic()
            found = self._at.capture()
            if self._group.rank == 0 or not self._is.sharded:
                self._checkpoints.save(self._at.progress.step, found, wait=wait)

    # -------------------------------------------------------------------------------------------- audit

    def processed(self, micro: Micro) -> None:
        """Record that this worker is about to use a micro-batch."""
        if self._audit is None or micro.idle:
            return
        if self._order[0] != micro.epoch:
            self._order = (
                micro.epoch,
                sample_schedule.order(self._is.seed, micro.epoch, self._samples).tolist(),
            )
        samples = self._order[1][micro.start : micro.stop]
        self._audit.processed(self._team, micro.step, micro.epoch, micro.index, samples)

    def committed(self, before: Progress, count: int) -> None:
        """A step of so many samples is done."""
        if self._audit is not None:
            stop = before.cursor + count
            self._audit.committed(self._team, before.step, before.epoch, before.cursor, stop)

    @property
    def _team(self) -> Key:
        return self._at.begun, self._group.number

    # ------------------------------------------------------------------------------------------ reports

    def report(self, losses: list[float], *, now: bool = False) -> None:
        """Report the run's progress; only the first worker does."""
        if self._group.rank != 0:
            return
        at, batch = self._at.progress, self._at.batch
        named = zip(self._is.optimizers, losses, strict=False)
        figures = {"loss" if name == ONLY else f"loss_{name}": loss for name, loss in named}
        figures |= {"step": at.step, "epoch": at.epoch, "batch": batch}
        if not self._is.stream:
            figures["total"] = at.step + sample_schedule.steps_left(at, self._samples, batch, self._is.epochs)
        self.telling.report({**figures, "world": self._group.world}, batch, now=now)


def _name() -> str:
    """Return the name of this process, unique among all that ever wrote to the same audit."""
    return f"{os.environ.get('GRUS_WORKER', '0')}-{os.environ.get('HOSTNAME', 'here')}-{os.getpid()}"
