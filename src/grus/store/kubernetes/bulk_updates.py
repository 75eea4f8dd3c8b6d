"""Bulk changes of objects: touch them at a take-over, remove those of old jobs."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Conflicts, Missing, Unreachable
from grus.kubernetes.client.resource_kinds import GPU_JOBS, Objects
from grus.model.errors import Fenced, StoreFailed
from grus.store.kubernetes import job_status_codec
from grus.store.kubernetes.status_writer import TRIES, Recorder, asking, drop


@dataclass(eq=False)
class Sweeper:
    _api: Api
    _pool: ThreadPoolExecutor
    _recorder: Recorder
    _note: Callable[[Object], None]

    def look(self) -> Objects:
        """Return all GpuJobs as they are in the cluster now."""
        with asking():
            return self._api.list(GPU_JOBS)[0]

    def take_over(self, items: Iterable[Object], epoch: int) -> None:
        """Touch the live ones, so that a writer that has seen them earlier cannot write them any more.

        Objects that a stopped store has left half made are removed: their existence was never reported.
        """
        live = [item for item in items if job_status_codec.live(item)]
        left = [item for item in items if job_status_codec.being_made(item) and not self._is_made(item)]
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
                self._note(self._api.replace(GPU_JOBS, job_status_codec.touched(item, epoch), part="status"))
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
            if found is None or (mine and job_status_codec.epoch(found) == epoch):
                return
            if job_status_codec.epoch(found) >= epoch:
                raise Fenced(
                    f"epoch {job_status_codec.epoch(found)} has begun: a newer control plane owns the jobs"
                )
            item = found
        raise StoreFailed(f"GpuJob {item['metadata']['name']} is being changed all the time; try again")

    def _found(self, item: Object) -> Object | None:
        """Return the same object as it is now, if it is there and has not ended."""
        home = job_status_codec.home(item)
        try:
            found = self._api.get(GPU_JOBS, home.name, home.namespace)
        except Missing:
            return None
        self._note(found)
        return found if job_status_codec.home(found) == home and job_status_codec.live(found) else None

    def _sweep(self, item: Object) -> None:
        """Sweep the object, unless it has changed since it was seen: then another writer uses it."""
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
        home = job_status_codec.home(item)
        return self._recorder.makes(home.namespace, home.name)
