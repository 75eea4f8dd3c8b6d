"""Logs of workers, read from their pods. The output of the `setup` lines comes first in that of worker 0."""

from collections.abc import Callable, Generator, Iterator

from grus.cli.kubernetes.object_converter import Worker, job_of, pods_of, shown, workers_of
from grus.kubernetes.client.api import Api, Missing, Object, Refused
from grus.model.errors import NotFound
from grus.model.jobs import TERMINAL
from grus.sdk.client import LogPiece

LOOK_EVERY = 0.5
GONE = (
    "The pods of job {job} are gone, and their logs with them. The controller may still have them: "
    "kubectl -n grus-system port-forward svc/grus 7600, then grus --server http://127.0.0.1:7600 logs {job}"
)
STARTED = ("Running", "Succeeded", "Failed")


class PodLogs:
    """`item` finds the object of a job."""

    def __init__(self, api: Api, item: Callable[[str], Object], pause: Callable[[float], None]) -> None:
        self._api = api
        self._item = item
        self._pause = pause

    def read(
        self, job: str, number: int, offset: int, limit: int, attempt: int | None = None
    ) -> tuple[bytes, int]:
        """Bytes of a worker's log and the next offset; a negative offset counts from the end."""
        most = None if offset < 0 else offset + limit
        chosen = self._chosen(job, number, attempt)
        data = b"".join(b"".join(self._chunks(worker, most=most)) for worker in chosen)
        begin = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        piece = data[begin : begin + limit]
        return piece, begin + len(piece)

    def follow(
        self, job: str, number: int, offset: int, attempt: int | None, since: int
    ) -> Generator[LogPiece, None, None]:
        """Follow the log as it is written, attempt after attempt, until the job (or this attempt) has
        ended.
        """
        done: set[str] = set()
        while True:
            item = self._item(job)
            chosen = self._chosen(job, number, attempt)
            fresh = [one for one in chosen if _uid(one) not in done and one.attempt >= since]
            for worker in fresh:
                if (worker.pod.get("status") or {}).get("phase") not in STARTED:
                    break
                for chunk in self._chunks(worker, follow=True):
                    skipped, offset = chunk[offset:], max(0, offset - len(chunk))
                    if skipped:
                        yield LogPiece(skipped.decode(errors="replace"), worker.attempt)
                done.add(_uid(worker))
            else:
                now = shown(item)
                if now.phase in TERMINAL or (attempt is not None and attempt < now.attempt):
                    return
            self._pause(LOOK_EVERY)

    def _chosen(self, job: str, number: int, attempt: int | None) -> list[Worker]:
        """The pods whose logs make up that worker's, those of workers that it replaced first."""
        item = self._item(job)
        known = job_of(item)
        roles = [role.name for role in known.spec.request.roles] if known else []
        found = workers_of(pods_of(self._api, item), roles, attempt)
        setup, rest = [one for one in found if one.is_setup], [one for one in found if not one.is_setup]
        over = known is not None and known.attempt and (known.terminal or (attempt or 0) < known.attempt)
        if known is not None and not found and over and (attempt or known.terminal):
            raise NotFound(GONE.format(job=known.id))
        places = list(dict.fromkeys((one.role, one.index) for one in rest))
        if number >= max(1, len(places)):
            raise NotFound(f"job {shown(item).id} has no worker {number}")
        own = [one for one in rest if (one.role, one.index) in places[number : number + 1]]
        return [*(setup if not number else ()), *own]

    def _chunks(self, worker: Worker, *, follow: bool = False, most: int | None = None) -> Iterator[bytes]:
        metadata = worker.pod["metadata"]
        container = worker.pod["spec"]["containers"][0]["name"]
        try:
            with self._api.log(
                metadata["name"],
                metadata["namespace"],
                container,
                follow=follow,
                limit_bytes=most if most else None,
            ) as log:
                yield from log
        except Missing:
            return  # gone meanwhile
        except Refused as refused:
            if refused.number != 400:  # its container has not started yet
                raise


def _uid(worker: Worker) -> str:
    return str(worker.pod["metadata"]["uid"])
