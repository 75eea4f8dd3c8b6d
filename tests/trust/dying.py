"""A control plane that dies at chosen places, and is each time followed by another one that goes on.

A `Bomb` counts the places where a control plane could die: before and after every write of its store and
every effect of its engine. `Drive` is a scenario under way: what was killed half-way is done again, as people
and the outside world would, by the control plane that comes next. `Disk` is a store whose next owner reads
what is in the file.
"""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from grus.model.identifiers import JobId
from grus.model.interfaces import Collection, Event, NewJob, Store
from grus.model.jobs import Job
from grus.store.memory import MemoryStore
from grus.store.sqlite import SqliteStore
from tests.controlplane.plane import ANN, Plane, a_spec

WRITES = ("take_over", "create", "create_all", "replace", "prune", "put", "delete", "put_tags")
"""Every method of a store that changes what is kept."""
MOST_DEATHS = 10


class Killed(BaseException):
    """Not an Exception: nothing in the control plane may catch it."""


class Bomb:
    """Goes off at these places of all where it is asked, counted from 1."""

    def __init__(self, *at: int) -> None:
        self.at = at
        self.places: list[str] = []

    def __call__(self, place: str) -> None:
        self.places.append(place)
        if len(self.places) in self.at:
            raise Killed(place)


def mine(store: Store, bomb: Bomb) -> None:
    """From here on each of the store's writes can be the last thing that a control plane does."""
    for name in WRITES:
        setattr(store, name, partial(_mined, getattr(store, name), name, bomb))


def _mined(write: Callable[..., Any], name: str, bomb: Bomb, /, *given: Any, **more: Any) -> Any:
    what = " ".join([name, *(_word(one) for one in given if one is not None)])
    bomb(f"before {what}")
    done = write(*given, **more)
    if isinstance(done, Future):
        done.exception()  # it lasts before its author dies, or is refused
    bomb(f"after {what}")
    return done


def _word(given: object) -> str:
    if isinstance(given, list):
        return " ".join(_word(one) for one in given)
    if isinstance(given, Collection):
        return given.name
    if isinstance(given, NewJob):
        given = given.job
    if isinstance(given, Job):
        return f"{given.spec.name}"
    return given.kind if isinstance(given, Event) else type(given).__name__


class Memory:
    """Where facts last in a process's memory: the next control plane finds the same object."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = MemoryStore()

    def begin(self, bomb: Bomb) -> Store:
        mine(self.store, bomb)
        return self.store

    def again(self, bomb: Bomb) -> Store:
        return self.store

    def close(self) -> None: ...


class Disk:
    """Where facts last in a file: the next control plane reads what the dead one has left on disk.

    Files are copied as they are at the moment of death, the write-ahead log with them: closing the dead one's
    store would tidy them up, as no kill would. Nothing waits for the disk here: a kill loses no page of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self.store: Store = self._open()

    def begin(self, bomb: Bomb) -> Store:
        mine(self.store, bomb)
        return self.store

    def again(self, bomb: Bomb) -> Store:
        dead, left = self.store, self._place()
        self._lives += 1
        self._place().mkdir()
        for file in left.glob("grus.db*"):
            if not file.name.endswith("-shm"):  # an index of the log in shared memory, gone with its process
                shutil.copy(file, self._place())
        dead.close()
        self.store = self._open()
        return self.begin(bomb)

    def close(self) -> None:
        self.store.close()

    def _open(self) -> Store:
        return SqliteStore(self._place() / "grus.db", lasting=False)

    def _place(self) -> Path:
        return self._folder / f"life-{self._lives}"


@dataclass
class Drive:
    """A scenario under way: whatever is killed is done again by the next control plane."""

    plane: Plane
    bomb: Bomb
    place: Memory | Disk
    folder: Path
    """Of the scenario, for files of its own."""
    ids: dict[str, JobId] = field(default_factory=dict)
    deaths: int = 0
    recovered: int = 0
    """How many places had been passed when whoever took over first had come to rest; 0 before."""
    rest: Callable[[], object] | None = None
    """What lets everything come to rest, where that is more than the loop."""
    reborn: Callable[[], object] = lambda: None
    """What else begins anew with a control plane."""
    left: Callable[[], object] = lambda: None
    """What is looked at after each death, before anybody asks again."""

    def do(self, what: Callable[[], object]) -> None:
        """Something outside happens or somebody asks; a person who got no answer asks again."""
        self._to_the_end(what)
        self.settle()

    def submit(self, name: str, **spec: object) -> None:
        made = a_spec(name, **spec)
        self.do(
            lambda: self.ids.update(
                {name: self.plane.services.actions.submit(ANN, made, key=name).result().id}
            )
        )

    def settle(self) -> None:
        self._to_the_end(self.rest or (lambda: self.plane.settle()))
        if self.deaths and not self.recovered:
            self.recovered = len(self.bomb.places)

    def after(self, seconds: float) -> None:
        # Graces end while nobody watches, if that is how it falls.
        self.plane.engine.advance(seconds)
        self.settle()

    def job(self, name: str) -> Job:
        return self.plane.job(self.ids[name])

    def finish(self, name: str) -> None:
        """The workers of a job end by themselves."""
        self.do(lambda: self.plane.engine.finish(f"{self.ids[name]}."))

    def _to_the_end(self, what: Callable[[], object]) -> None:
        dead = False
        for _ in range(MOST_DEATHS):
            try:
                if dead:
                    self._take_over()  # which may be its last deed, too
                what()
            except Killed:
                self.deaths += 1
                dead = True
            else:
                return
        raise AssertionError(f"died {MOST_DEATHS} times in a row")

    def _take_over(self) -> None:
        self.reborn()
        self.plane.restart(self.place.again(self.bomb))
        self.left()
