"""Elastic training loop: workers may join, leave and die while it runs. See docs/elastic-training.md.

    run = grus.train(model, optimizer, dataset, global_batch=256, epochs=10, scheduler=scheduler)
    for batch in run:
        loss = loss_fn(run.model(batch.x), batch.y)
        run.step(loss)

A step is all or nothing. Its gradients are summed over the worker group, and the optimizer uses them only
when the group has settled (no worker was lost, no exchange was aborted). A step that could not settle is
dropped, a new group is formed, the workers that are behind receive the state of the most advanced one, and
the step is done again. So a fault costs only the step that was under way.

The membership changes only between two steps. Another thread forms a new group while steps continue. Each
step's exchange also carries a few numbers: the next group that a worker is ready for, or that the run is to
end. All workers read the same sums and act at the same step.
"""

import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch

from grus.elastic.data import sample_schedule
from grus.elastic.data.batch import Batch, Step
from grus.elastic.data.loader import Loader, Stream
from grus.elastic.data.sample_schedule import Micro, Progress
from grus.elastic.gradients.noise_scale import NoiseMeter
from grus.elastic.gradients.step_sync import Exchange, Flags
from grus.elastic.rendezvous.collective_backends import Broken
from grus.elastic.rendezvous.device_errors import OUT
from grus.elastic.rendezvous.membership import Left, find_membership
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.devices import own_device
from grus.elastic.training_loop.evaluation import evaluating, share_statistics
from grus.elastic.training_loop.seeding import sow
from grus.elastic.training_loop.validate_arguments import ONLY, Arguments
from grus.elastic.training_loop.warmup import rehearse
from grus.elastic.training_state.persist_records import Keeping
from grus.elastic.training_state.state_dict import Differs
from grus.elastic.training_state.state_sync import Torn, TrainingState
from grus.estimation.activation_checkpointing import lighten
from grus.sdk import worker

log = logging.getLogger(__name__)

ENDLESS = 1 << 62
"""Samples of a stream, as far as a plan goes."""
PATIENCE = 2.0
"""Seconds between a request to end and the orders that explain it."""


class Run:
    """A run, seen from one worker. `model` is yours, never wrapped: save it, compile it, read it."""

    def __init__(self, arguments: Arguments, on_epoch: Callable[["Run"], None] | None = None) -> None:
        self._is = arguments
        self._on_epoch = on_epoch
        self.device = own_device()
        for model in arguments.models.values():
            lighten(model, arguments.strategies)
            if not arguments.cut and not arguments.placed:  # if sharded, each worker takes its part
                model.to(self.device)
        self.model: Any = arguments.models if arguments.several else arguments.models[ONLY]
        self._group = Group()
        self._exchange = Exchange(arguments, self._group, self.device)
        self._loader = _loader(arguments, self.device)
        self._samples = self._loader.samples if isinstance(self._loader, Loader) else ENDLESS
        self._sizer = arguments.sizer()
        self._at = self._standing()
        self._keeping = Keeping(arguments, self._group, self._at, self._samples)
        self._batches: Iterator[tuple[Micro, Any]] = iter(())
        self._micro: Micro | None = None
        self._parts = 0
        """Micro-batches of this worker in the present step."""
        self._last = False
        self._broken = False
        self._wants = (False, False)
        """Change of worker group, and end of the run, as agreed upon with the last step."""
        self._noise = NoiseMeter()
        self._asked_at: float | None = None
        self._weight = 0.0
        """Part of the step's samples that this worker has used."""
        self._asked_for: Counter[str] = Counter()
        """Updates of this step that the loop has requested so far, by name."""
        worker.asked_to_end()
        rehearse(self.device)  # before any other worker knows of this one, and waits for it
        self._membership = find_membership(
            self._group,
            self.device,
            backend=arguments.backend,
            hang_after=arguments.hang_after,
            fixed=arguments.fixed,
        )

    def _standing(self) -> TrainingState:
        if not self._is.sharded:
            return TrainingState(self._is, self._sizer, self._samples)
        from grus.elastic.training_state.sharding import (  # takes a second; few need it
            ShardedTrainingState,
            Sharding,
        )

        sharding = Sharding(self._is, self.device, self._exchange.rows)
        return ShardedTrainingState(self._is, self._sizer, self._samples, sharding)

    # ------------------------------------------------------------------------------------- for users

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def world(self) -> int:
        """Number of workers in the present group."""
        return self._group.world

    @property
    def folder(self) -> Path | None:
        """Folder of the run's checkpoints; None for a run without any."""
        return self._is.checkpoint

    @property
    def epoch(self) -> int:
        return self._at.progress.epoch

    @property
    def steps(self) -> int:
        """Steps done."""
        return self._at.progress.step

    @property
    def global_batch(self) -> int:
        return self._at.batch

    def should_pause(self) -> bool:
        """True if the run will end at the next step's boundary; the loop needs to take no action."""
        return self._membership.orders().ends

    def report(self, **figures: float) -> None:
        """Report metrics of your own (accuracy=0.93); the first worker sends them."""
        if self.rank == 0:
            worker.report(**figures)

    @contextmanager
    def evaluate(self) -> Iterator[None]:
        """Put models into evaluation mode, without gradients; the worker group does not change inside.

        Running statistics (BatchNorm) are made equal first, so call it on all workers.
        """
        models = list(self._is.models.values())
        try:
            with self._membership.waiting():
                share_statistics(models, self._group, self.device)
        except Broken:
            self._broken = True
        with evaluating(models):
            yield
        self._keeping.telling.rested()

    def mean(self, value: float, weight: float = 1.0) -> float:
        """Return the weighted mean over all workers (all must call it); this worker's own if one was lost."""
        try:
            with self._membership.waiting():
                total, weights = self._group.sum([float(value) * weight, weight], self.device)
        except Broken:
            log.warning("a worker was lost during an evaluation: this is the mean over a part only")
            self._broken = True
            return float(value)
        return total / weights if weights else math.nan

    # -------------------------------------------------------------------------------------- the loop

    def __iter__(self) -> Iterator[Any]:
        while self._ready():
            yield from self._whole_step() if self._is.several else self._micro_batches()

    def _micro_batches(self) -> Iterator[Batch]:
        mine = self._mine()
        for left in range(len(mine) - 1, -1, -1):
            batch = self._next_batch()
            if batch is None:
                break
            self._enter(batch.micro, 0, last=left == 0)
            yield batch
            if self._micro is not None:
                raise RuntimeError("run.step(loss) must be called once for every batch")
            if self._broken or self._last:
                return
        # No part in this step, or a stream that has ended: the others still need the exchange.
        self._last = False
        self._finish_step()

    def _whole_step(self) -> Iterator[Step]:
        batches = [batch for _ in self._mine() if (batch := self._next_batch()) is not None]
        step = self._at.progress.step
        yield Step(batches, lambda batch, walk: self._enter(batch.micro, walk, last=False))
        if not self._broken and self._at.progress.step == step:
            raise RuntimeError("run.step() must be called at the end of every step")

    def _mine(self) -> tuple[Micro, ...]:
        """Return this worker's micro-batches of the present step."""
        self._asked_for.clear()
        self._weight = 0.0
        self._noise.begin(self._at.progress.step)
        self._exchange.begin()
        step = sample_schedule.micros(self._at.progress, self._samples, self._at.batch, self._is.micro)
        mine = self._share(step)
        self._parts = len(mine)
        return mine

    def _share(self, step: tuple[Micro, ...]) -> tuple[Micro, ...]:
        """Return this worker's micro-batches; equal counts for all if torch exchanges data in each pass."""
        return (sample_schedule.even_share if self._is.cut else sample_schedule.share)(
            step, self.rank, self.world
        )

    def _next_batch(self) -> Batch | None:
        """None where a stream has ended before its time."""
        found = next(self._batches, None)
        if found is None:
            return None
        self._weight += found[0].weight
        self._keeping.processed(found[0])
        return Batch(*found)

    def _enter(self, micro: Micro, walk: int, *, last: bool) -> None:
        """Chance belongs to the micro-batch, not to the worker that happens to compute it."""
        self._micro = micro
        self._last = last
        sow(sample_schedule.seed_of(self._is.seed, micro.step, micro.index + (walk << 32)))

    # ------------------------------------------------------------------------------------- one step

    def step(self, loss: torch.Tensor | None = None) -> float | None:
        """Learn from this micro-batch; with the step's last one, exchange and update.

        Return the mean loss over all workers when a step is done, None otherwise. With several optimizers:
        call it without a loss, at the end of the step.
        """
        if self._is.several:
            if loss is not None:
                raise TypeError(
                    "with several optimizers: run.backward(loss, name), run.update(name), run.step()"
                )
            return self._finish_step()
        if loss is None or self._micro is None:
            raise TypeError("run.step(loss) needs the loss of the batch at hand, once")
        micro, self._micro = self._micro, None
        if self._group.aborted:
            self._give_up()
            return None
        self._exchange.count(loss, micro, ONLY)
        if self._last:
            self._exchange.send(self._heard(), arm=[ONLY])
        self._exchange.backward(loss, micro)
        if self._is.adaptive:
            self._noise.small(self._exchange.reducer(ONLY), micro, self._exchange.scale())
        return self._finish_step() if self._last else None

    def backward(self, loss: torch.Tensor, name: str) -> None:
        """Compute the gradients for `name` from this micro-batch, in a run with several optimizers."""
        if self._micro is None:
            raise TypeError("run.backward must be called inside `for batch in step`")
        if self._asked_for[name] < self._at.updates.get(name, 0) or self._broken:
            return  # applied before the step was interrupted, or to be done again
        self._exchange.count(loss, self._micro, name)
        self._exchange.backward(loss, self._micro, only=name)

    def update(self, name: str) -> None:
        """Exchange the gradients of `name` and apply them, in a run with several optimizers."""
        self._micro = None
        self._asked_for[name] += 1
        if self._asked_for[name] <= self._at.updates.get(name, 0) or self._broken:
            self._exchange.reducer(name).drop_gradients()
            return
        try:
            with self._membership.waiting():
                loss = self._exchange.sum(name)
        except Broken:
            self._give_up()
            return
        self._exchange.reducer(name).adopt()
        self._exchange.apply(name)
        self._at.updates[name] = self._asked_for[name]
        self._at.losses[name] = loss

    def _heard(self) -> Flags:
        """Return the flags that this worker sends to the others with this step."""
        flags = Flags.of(
            self._membership.formed(), stuck=self._membership.stuck(), end=self._membership.orders().ends
        )._replace(weight=self._weight)
        if self._is.sharded and self.rank == 0:
            flags = flags._replace(save=float(self._keeping.due()))
        if self._sizer is None:
            return flags
        small, smalls = self._noise.carried
        flags = flags._replace(small=small, smalls=smalls)
        if self.rank == 0:
            factor = self._sizer.lr_factor(self._step_samples)
            flags = flags._replace(batch=float(self._sizer.choose(self.world)), factor=factor)
        return flags

    def _finish_step(self) -> float | None:
        if self._broken:
            return None
        if not self._last:  # nothing was sent meanwhile
            self._exchange.send(self._heard())
        try:
            with self._membership.waiting():
                flags, losses = self._exchange.settle([] if self._is.several else [ONLY])
        except Broken:
            self._give_up()
            return None
        if self._samples == ENDLESS and not flags.weight:
            self._end_stream()
            return None
        if not self._is.several:
            reducer = self._exchange.reducer(ONLY)
            reducer.adopt()
            if self._is.adaptive:
                self._noise.big(reducer, self._step_samples, self._is.micro, self._exchange.scale())
            if self._samples == ENDLESS:
                reducer.scale(1.0 / flags.weight)
            self._exchange.apply(ONLY, flags.factor or 1.0)
        else:
            losses = [self._at.losses.get(name, 0.0) for name in self._is.optimizers]
        self._commit(flags, losses)
        return losses[0]

    def _commit(self, flags: Flags, losses: list[float]) -> None:
        """Commit the step on this worker; later failures of other workers no longer change that."""
        before, count = self._at.progress, self._step_samples
        self._at.progress = sample_schedule.after(before, self._samples, self._at.batch)
        self._at.updates, self._at.losses = {}, {}
        self._keeping.committed(before, count)
        epoch_done = self._at.progress.epoch != before.epoch
        for scheduler in self._is.schedulers.values():
            if epoch_done or self._is.scheduler_per == "step":
                scheduler.step()
        self._wants = (flags.change(self.world), flags.end > 0)
        self._time(flags, count)
        self._membership.tell(self.steps, self._parts)
        self._keeping.report(losses)
        if epoch_done and self._on_epoch is not None:
            self._on_epoch(self)
        if not self._is.sharded:
            self._keeping.save_if_due()
        elif flags.save:
            self._keeping.save_together()

    def _time(self, flags: Flags, count: int) -> None:
        """Record the step's timing and noise for the batch sizer, and adopt the next batch size."""
        seconds = self._keeping.telling.committed()
        if self._sizer is None:
            return
        micros = math.ceil(math.ceil(count / self._is.micro) / self.world)
        if seconds is not None and count == self._at.batch:
            self._sizer.timed(micros, seconds)
        self._noise.teach(self._sizer, flags.small, flags.smalls)
        if flags.batch and int(flags.batch) != self._at.batch:
            self._at.batch = int(flags.batch)
            self._plan()

    def _end_stream(self) -> None:
        """End the epoch: no worker had samples left, so this was no step."""
        self._at.progress = Progress(self.epoch + 1, 0, self.steps)
        if self._on_epoch is not None:
            self._on_epoch(self)
        self._plan()

    def _give_up(self) -> None:
        """Drop this step, because a worker was lost."""
        self._broken = True
        self._micro = None
        self._exchange.give_up()

    @property
    def _step_samples(self) -> int:
        """Samples of the present step: fewer at the end of an epoch."""
        return min(self._at.batch, self._samples - self._at.progress.cursor)

    # ------------------------------------------------------------------------------- between two steps

    def _ready(self) -> bool:
        """Return whether there is a step to do and a group
        to do it; end the process when that was requested.
        """
        if self._wants[1]:
            self._end()
        finished = sample_schedule.finished(self._at.progress, self._is.epochs)
        # Even if all is done: somebody may wait in the new team already, and learns of it there.
        if self._group.number == 0 or self._broken or self._wants[0]:
            self._regroup()
            finished = sample_schedule.finished(self._at.progress, self._is.epochs)
        self._heed_strangers()
        if finished and self._saves:
            self._keeping.save()
            self._keeping.report([], now=True)
        return not finished

    def _regroup(self) -> None:
        """Form the next worker group, and synchronize with its most advanced member."""
        self._keeping.telling.interrupted(redo=self._broken)
        while True:
            try:
                team = self._membership.join()
            except Left:
                self._leave(save=self._membership.orders().ends and self._at.height() > 0)
            except Broken as error:
                raise RuntimeError(str(error)) from error
            try:
                with self._membership.waiting():
                    self._at.level(self._group, self.device, self._load)
                break
            except Broken:
                self._broken = True
            except Differs as error:
                self._refuse(error)
            except Torn as error:
                _go(str(error))
        self._exchange.refresh()
        log.info("team %d: %d workers, this is number %d", team.number, self.world, self.rank)
        self._broken = False
        self._wants = (False, False)
        self._noise = NoiseMeter()
        self._membership.tell(self.steps, 0)
        self._plan()

    def _load(self) -> dict[str, Any] | None:
        """Load a checkpoint; a large one takes long to read, and that time counts as work, not as a hang."""
        with self._membership.working():
            return self._keeping.load()

    def _plan(self) -> None:
        """Schedule this worker's batches under the present membership."""
        self._batches = self._loader.batches(self._schedule())

    def _schedule(self) -> Iterator[Micro]:
        at, batch = self._at.progress, self._at.batch
        while not sample_schedule.finished(at, self._is.epochs):
            yield from self._share(sample_schedule.micros(at, self._samples, batch, self._is.micro))
            at = sample_schedule.after(at, self._samples, batch)

    def _refuse(self, error: Differs) -> NoReturn:
        if self._at.anew:
            raise error  # the fault affects the whole job
        _go(f"this worker cannot join: {error}")

    def _end(self) -> NoReturn:
        """All agreed to end after this step: the first one saves."""
        deadline = time.monotonic() + PATIENCE
        while not self._membership.orders().ends and time.monotonic() < deadline:
            time.sleep(0.01)  # learned from the others; the requested stop will reach this worker too
        self._leave(save=self._saves)

    @property
    def _saves(self) -> bool:
        """True if this worker takes part when all are to save:
        it is the first, or each holds a part of the state.
        """
        return self.rank == 0 or self._is.sharded

    def _leave(self, *, save: bool) -> NoReturn:
        """Leave the worker group and exit.

        If the whole group ends between two groups, there is no first worker, so every worker saves.
        """
        if save:
            self._keeping.save()
        self._keeping.wait()
        raise SystemExit(0)

    def _heed_strangers(self) -> None:
        """Handle a SIGTERM that the control plane did not send: this worker exits, the others continue."""
        heard = self._membership.orders()
        if not worker.asked_to_end() or heard.ends or heard.leave:
            return
        self._asked_at = self._asked_at or time.monotonic()
        if time.monotonic() - self._asked_at > PATIENCE:
            _go("asked to end by SIGTERM; the other workers go on")


def _loader(arguments: Arguments, device: torch.device) -> Loader | Stream:
    how: dict[str, Any] = {
        "collate": arguments.collate,
        "num_workers": arguments.num_workers,
        "device": device,
    }
    if arguments.stream:
        return Stream(arguments.dataset, size=arguments.micro, **how)
    return Loader(arguments.dataset, seed=arguments.seed, **how)


def _go(why: str) -> NoReturn:
    """Leave the worker group for good; the group continues without this worker."""
    sys.stderr.write(f"grus: {why}\n")
    raise SystemExit(OUT)
