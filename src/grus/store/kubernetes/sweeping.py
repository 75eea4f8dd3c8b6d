"""What is done to many objects at once: touching them at a take-over, removing those of old jobs."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from grus.kubernetes.api import Api, Object
from grus.kubernetes.homes import Home
from grus.kubernetes.kinds import GPU_JOBS, Objects
from grus.kubernetes.refusals import Conflicts, Missing, Unreachable
from grus.model.errors import Fenced, StoreFailed
from grus.store.kubernetes import records
from grus.store.kubernetes.recording import TRIES, Recorder, asking, drop


class Sweeper:
    def __init__(
        self,
        api: Api,
        pool: ThreadPoolExecutor,
        recorder: Recorder,
        note: Callable[[Object], None],
    ) -> None:
        self._api = api
        self._pool = pool
        self._recorder = recorder
        self._note = note

    def look(self) -> Objects:
        """All GpuJobs as they are in the cluster now."""
        with asking():
            return self._api.list(GPU_JOBS)[0]

    def take_over(self, items: Iterable[Object], epoch: int) -> None:
        """Touch the live ones, so that whoever has seen them earlier cannot write them any more.

        Objects that a stopped store has left half made are removed: nobody was told that they exist.
        """
        live = [item for item in items if records.live(item)]
        left = [item for item in items if records.being_made(item) and not self._is_made(item)]
        with asking():
            list(self._pool.map(lambda item: self._touch(item, epoch), live))
            list(self._pool.map(self._sweep, left))

    def remove(self, homes: Sequence[Home]) -> None:
        with asking():
            list(self._pool.map(self._remove, homes))

    def _touch(self, item: Object, epoch: int) -> None:
        for _ in range(TRIES):
            self._recorder.require_leadership()
            try:
                self._note(self._api.replace(GPU_JOBS, records.touched(item, epoch), part="status"))
                return
            except Missing:
                return
            except Conflicts:
                mine = False
            except Unreachable as trouble:
                if not trouble.arrived:
                    raise
                mine = True
            found = self._found(item)
            if found is None or (mine and records.epoch(found) == epoch):
                return
            if records.epoch(found) >= epoch:
                raise Fenced(f"epoch {records.epoch(found)} has begun: a newer control plane owns the jobs")
            item = found
        raise StoreFailed(f"GpuJob {item['metadata']['name']} is being changed all the time; try again")

    def _found(self, item: Object) -> Object | None:
        """The same object as it is now, if it is there and has not ended."""
        home = records.home(item)
        try:
            found = self._api.get(GPU_JOBS, home.name, home.namespace)
        except Missing:
            return None
        self._note(found)
        return found if records.home(found) == home and records.live(found) else None

    def _sweep(self, item: Object) -> None:
        """Unless it has changed since it was seen: then somebody is at it."""
        try:
            drop(self._api, item, version=item["metadata"]["resourceVersion"])
        except (Missing, Conflicts):
            return

    def _remove(self, home: Home) -> None:
        try:
            self._api.delete(GPU_JOBS, home.name, home.namespace, uid=home.uid)
        except (Missing, Conflicts):  # gone, or another one of that name
            return

    def _is_made(self, item: Object) -> bool:
        home = records.home(item)
        return self._recorder.makes(home.namespace, home.name)
