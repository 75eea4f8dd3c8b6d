"""A training loop whose workers may come, go and die while it runs. See docs/elastic-training.md.

    run = grus.train(model, optimizer, dataset, global_batch=256, epochs=10, scheduler=scheduler)
    for batch in run:
        loss = loss_fn(run.model(batch.x), batch.y)
        run.step(loss)

A step is all or nothing. Its gradients are summed over the team, and only when the group has settled (nobody
was lost, nothing was aborted) does the optimizer use them. A step that could not settle is forgotten, a new
team is formed, whoever is behind receives the state of the most advanced, and the step is done again. So a
fault costs the one step that was under way.

The membership changes between two steps and nowhere else. A new team is formed by another thread while steps
go on. A few numbers ride along with each step's exchange: which next team a worker is ready for, or that the
run is to end. All workers read the same sums and act at the same step.
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

from grus.elastic import plan
from grus.elastic.arguments import ONLY, Arguments
from grus.elastic.backends import Broken
from grus.elastic.batch import Batch, Step
from grus.elastic.chance import sow
from grus.elastic.device_errors import OUT
from grus.elastic.devices import own_device
from grus.elastic.evaluation import evaluating, share_statistics
from grus.elastic.exchange import Exchange, Flags
from grus.elastic.group import Group
from grus.elastic.keeping import Keeping
from grus.elastic.loader import Loader, Stream
from grus.elastic.membership import Left, find_membership
from grus.elastic.noise import Noise
from grus.elastic.plan import Micro, Progress
from grus.elastic.rehearsal import rehearse
from grus.elastic.standing import Standing, Torn
from grus.elastic.state import Differs
from grus.estimation.lighter import lighten
from grus.sdk import worker

log = logging.getLogger(__name__)

ENDLESS = 1 << 62
"""Samples of a stream, as far as a plan goes."""
PATIENCE = 2.0
"""Seconds between a request to end and the words that say what is meant."""


class Run:
    """A run, seen from one worker. `model` is yours, never wrapped: save it, compile it, read it."""

    def __init__(self, arguments: Arguments, on_epoch: Callable[["Run"], None] | None = None) -> None:
        self._is = arguments
        self._on_epoch = on_epoch
        self.device = own_device()
        for model in arguments.models.values():
            lighten(model, arguments.strategies)
            if not arguments.cut and not arguments.placed:  # if cut, each worker takes its part
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
        """Micro-batches of this worker's in the step at hand."""
        self._last = False
        self._broken = False
        self._wants = (False, False)
        """A change of team, or the end, agreed upon with the last step."""
        self._noise = Noise()
        self._asked_at: float | None = None
        self._weight = 0.0
        """Part of the step's samples that this worker has used."""
        self._asked_for: Counter[str] = Counter()
        """Updates of this step that the loop has asked for so far, by name."""
        worker.asked_to_end()
        rehearse(self.device)  # before anybody hears of this worker, and waits for it
        self._membership = find_membership(
            self._group,
            self.device,
            backend=arguments.backend,
            hang_after=arguments.hang_after,
            fixed=arguments.fixed,
        )

    def _standing(self) -> Standing:
        if not self._is.sharded:
            return Standing(self._is, self._sizer, self._samples)
        from grus.elastic.sharding import ShardedStanding, Sharding  # takes a second; few need it

        sharding = Sharding(self._is, self.device, self._exchange.rows)
        return ShardedStanding(self._is, self._sizer, self._samples, sharding)

    # ------------------------------------------------------------------------------------- for users

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def world(self) -> int:
        """Workers in the present team."""
        return self._group.world

    @property
    def folder(self) -> Path | None:
        """Where its checkpoints are; None for a run without any."""
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
        """Whether the run will end at the next step's boundary; nothing needs to be done about it."""
        return self._membership.orders().ends

    def report(self, **figures: float) -> None:
        """Tell figures of your own (accuracy=0.93), from whichever worker is the first."""
        if self.rank == 0:
            worker.report(**figures)

    @contextmanager
    def evaluate(self) -> Iterator[None]:
        """Models in evaluation mode and without gradients; the team does not change inside.

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
        """The weighted mean over all workers (all must ask); if one was lost, that of this one alone."""
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
        """This worker's micro-batches of the step at hand."""
        self._asked_for.clear()
        self._weight = 0.0
        self._noise.begin(self._at.progress.step)
        self._exchange.begin()
        step = plan.micros(self._at.progress, self._samples, self._at.batch, self._is.micro)
        mine = self._share(step)
        self._parts = len(mine)
        return mine

    def _share(self, step: tuple[Micro, ...]) -> tuple[Micro, ...]:
        """Where torch exchanges something in each pass, all must do as many."""
        return (plan.even_share if self._is.cut else plan.share)(step, self.rank, self.world)

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
        sow(plan.seed_of(self._is.seed, micro.step, micro.index + (walk << 32)))

    # ------------------------------------------------------------------------------------- one step

    def step(self, loss: torch.Tensor | None = None) -> float | None:
        """Learn from this micro-batch; with the step's last one, exchange and update.

        Gives the mean loss over all workers when a step is done, None otherwise. With several optimizers:
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
        """With several optimizers: learn from this micro-batch what `name` is to be updated with."""
        if self._micro is None:
            raise TypeError("run.backward must be called inside `for batch in step`")
        if self._asked_for[name] < self._at.updates.get(name, 0) or self._broken:
            return  # applied before the step was interrupted, or to be done again
        self._exchange.count(loss, self._micro, name)
        self._exchange.backward(loss, self._micro, only=name)

    def update(self, name: str) -> None:
        """With several optimizers: exchange the gradients of `name` and apply them."""
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
        """What this worker has to tell the others with this step."""
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
        if not self._last:  # nothing was sent on the way
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
        """The step is done, here and now, whatever happens to anybody from here on."""
        before, count = self._at.progress, self._step_samples
        self._at.progress = plan.after(before, self._samples, self._at.batch)
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
        """What this step teaches of the best batch, and what the next one is."""
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
        """Nobody had anything left: this was no step, but the end of the epoch."""
        self._at.progress = Progress(self.epoch + 1, 0, self.steps)
        if self._on_epoch is not None:
            self._on_epoch(self)
        self._plan()

    def _give_up(self) -> None:
        """Somebody was lost: forget this step."""
        self._broken = True
        self._micro = None
        self._exchange.give_up()

    @property
    def _step_samples(self) -> int:
        """Samples of the step at hand: fewer at the end of an epoch."""
        return min(self._at.batch, self._samples - self._at.progress.cursor)

    # ------------------------------------------------------------------------------- between two steps

    def _ready(self) -> bool:
        """Whether there is a step to do, with a team to do it; ends the process when that is asked for."""
        if self._wants[1]:
            self._end()
        finished = plan.finished(self._at.progress, self._is.epochs)
        # Even if all is done: somebody may wait in the new team already, and learns of it there.
        if self._group.number == 0 or self._broken or self._wants[0]:
            self._regroup()
            finished = plan.finished(self._at.progress, self._is.epochs)
        self._heed_strangers()
        if finished and self._saves:
            self._keeping.save()
            self._keeping.report([], now=True)
        return not finished

    def _regroup(self) -> None:
        """Form the next team, and get level with its most advanced member."""
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
        self._noise = Noise()
        self._membership.tell(self.steps, 0)
        self._plan()

    def _load(self) -> dict[str, Any] | None:
        """A large checkpoint takes long to read; nobody is held up by anybody meanwhile."""
        with self._membership.working():
            return self._keeping.load()

    def _plan(self) -> None:
        """What this worker will do if nothing changes."""
        self._batches = self._loader.batches(self._schedule())

    def _schedule(self) -> Iterator[Micro]:
        at, batch = self._at.progress, self._at.batch
        while not plan.finished(at, self._is.epochs):
            yield from self._share(plan.micros(at, self._samples, batch, self._is.micro))
            at = plan.after(at, self._samples, batch)

    def _refuse(self, error: Differs) -> NoReturn:
        if self._at.anew:
            raise error  # the whole job is at fault
        _go(f"this worker cannot join: {error}")

    def _end(self) -> NoReturn:
        """All agreed to end after this step: the first one saves."""
        deadline = time.monotonic() + PATIENCE
        while not self._membership.orders().ends and time.monotonic() < deadline:
            time.sleep(0.01)  # heard from the others; whoever asks will come to this one too
        self._leave(save=self._saves)

    @property
    def _saves(self) -> bool:
        """Whether this worker takes part when all are to save: each has all of the state, or a part."""
        return self.rank == 0 or self._is.sharded

    def _leave(self, *, save: bool) -> NoReturn:
        """Out of the team. If all of it ends between two teams, nobody is the first: everybody saves."""
        if save:
            self._keeping.save()
        self._keeping.wait()
        raise SystemExit(0)

    def _heed_strangers(self) -> None:
        """SIGTERM of somebody who is not the control plane: this worker goes, the others go on."""
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
    """Out of the team for good, which goes on without this worker."""
    sys.stderr.write(f"grus: {why}\n")
    raise SystemExit(OUT)
