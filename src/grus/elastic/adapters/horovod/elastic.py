"""Horovod's elastic mode: a committed state and a function that reruns when the worker group changes.

A planned change surfaces in `commit` or `check_host_updates`, on all workers in the same call. A lost worker
surfaces in the exchange that is under way. In both cases `run` forms the next worker group, synchronizes all
workers to the most advanced state, and calls the function again. After a loss each worker first returns to
its last commit.

A pause (or preemption) saves the state to the job's checkpoint folder, if the job has one, and the next start
resumes from it.
"""

import copy
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from grus.elastic.adapters.horovod.errors import HorovodInternalError, HostsUpdatedInterrupt
from grus.elastic.adapters.horovod.exchange import sent
from grus.elastic.adapters.horovod.sampler import ElasticSampler as ElasticSampler
from grus.elastic.adapters.horovod.saving import load, save
from grus.elastic.adapters.horovod.world import rank, size, world
from grus.elastic.rendezvous.membership import Left
from grus.sdk import worker

log = logging.getLogger(__name__)


class State:
    """Base of all states: its commits, and the selection of the most advanced worker's state."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], object]] = []
        self._commits = 0
        """Number of commits of this worker's state; 0 for a worker that has just joined."""

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """Have these called when workers have come or gone, before states are brought in line."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keep a copy to return to, and check for a change of worker group. Call it on all workers alike."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all workers if one of them has received a change."""
        orders = world.membership.orders()
        heard = orders.ends or orders.leave or orders.number > world.group.number
        world.membership.tell(self._commits)
        with world.together() as group:
            (changes,) = group.sum([float(heard)], world.device)
        if changes:
            raise HostsUpdatedInterrupt

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError


class TorchState(State):
    """State of models, optimizers, schedulers, samplers (with a state_dict), and plain values by name."""

    def __init__(self, model: Any = None, optimizer: Any = None, **more: Any) -> None:
        super().__init__()
        given = {"model": model, "optimizer": optimizer, **more}
        self._names = [name for name, value in given.items() if value is not None or name in more]
        for name in given:
            setattr(self, name, given[name])
        self.save()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save(self) -> None:
        self._saved = copy.deepcopy(self.now())

    def restore(self) -> None:
        self.put(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Take over the state of the worker with most commits, of several the first."""
        commits = [0.0] * size()
        commits[rank()] = float(self._commits)
        with world.together() as group:
            commits = group.sum(commits, world.device)
        source = commits.index(max(commits))
        found = sent(self.now(), source)
        if rank() != source:
            self.put(found)
        self._commits = int(max(commits))
        for value in (getattr(self, name) for name in self._names):
            if isinstance(value, ElasticSampler):
                value.reset()
        self.save()

    def now(self) -> dict[str, Any]:
        """Return the whole present state, in plain values and tensors."""
        return {name: _state_of(getattr(self, name)) for name in self._names}

    def put(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            own: Any = getattr(self, name, None)
            if _has_state(own):
                own.load_state_dict(value)
            else:
                setattr(self, name, value)


def _has_state(value: object) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _state_of(value: Any) -> Any:
    return value.state_dict() if _has_state(value) else value


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a training function whose first argument is a state: it is called again after each change."""

    @functools.wraps(function)
    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        if "GRUS_CONTROL" in os.environ:
            worker.asked_to_end()  # SIGTERM no longer kills: orders decide, and the next commit reads them
        load(state)
        new_team, reset = not world.joined, False
        while True:
            try:
                _begin(state, new_team=new_team, reset=reset)
                return function(state, *args, **kwargs)
            except HorovodInternalError as error:
                log.warning("back to the last commit: %s", error)
                state.restore()
            except HostsUpdatedInterrupt:
                pass
            new_team = reset = True

    return wrapper


def _begin(state: Any, *, new_team: bool, reset: bool) -> None:
    """Join the next worker group and synchronize the state; a worker that has no place in it exits here."""
    before = (rank(), size())
    try:
        if new_team:
            world.join()
    except Left:
        if world.membership.orders().ends and world.group.rank == 0:
            save(state)
        sys.exit(0)
    if reset or (rank(), size()) != before:
        state.on_reset()
    state.sync()
