"""How fast the Kubernetes store is here: `python -m tests.kubernetes.store.measure [JOBS]`.

On an API server and etcd of its own. The last line is one JSON object.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace

from grus.kubernetes.client.api import Api
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.resources import GPU
from grus.store.kubernetes.store import KubernetesStore
from tests.kubernetes.store.clusters import emptied, own_cluster
from tests.store.builders import a_job, an_event

SEAT = Seat("worker", 0, NodeId("n1"), (DeviceId("g1"),), GPU)


def all_of(futures: "Sequence[Future[Job]]") -> list[Job]:
    return [future.result() for future in futures]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def milliseconds(work: Callable[[], object]) -> float:
    """The best of three."""
    return round(1000 * min(seconds(work) for _ in range(3)), 2)


def waiting(store: KubernetesStore, jobs: Sequence[Job], threads: int) -> float:
    """Writes a second by threads that each wait for one before giving the next."""

    def write(mine: Sequence[Job]) -> None:
        for job in mine:
            store.replace(replace(job, reason="changed"), an_event(job, "tick")).result()

    running = [threading.Thread(target=write, args=(jobs[n::threads],)) for n in range(threads)]

    def run() -> None:
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    return round(len(jobs) / seconds(run))


def measured(api: Api, count: int) -> dict[str, float]:
    figures: dict[str, float] = {"jobs": count}
    with closing(KubernetesStore(api)) as store:
        jobs: list[Job] = []
        took = seconds(
            lambda: jobs.extend(
                all_of([store.create(a_job(submitted_at=n), an_event()) for n in range(count)])
            )
        )
        figures["creates_per_s"] = round(count / took)
        some = jobs[: min(count, 1000)]
        started = [replace(job, phase=Phase.STARTING, seats=(SEAT,)) for job in some]
        took = seconds(lambda: all_of([store.replace(job, an_event(job, "starting")) for job in started]))
        figures["replaces_per_s"] = round(len(some) / took)
        figures["replaces_per_s_1_waiting"] = waiting(store, [store.job(job.id) for job in some[:300]], 1)
        figures["replaces_per_s_16_waiting"] = waiting(store, [store.job(job.id) for job in some], 16)
        figures["list_ms"] = milliseconds(store.jobs)
        figures["list_100_ms"] = milliseconds(lambda: store.jobs(limit=100))
        figures["job_ms"] = milliseconds(lambda: store.job(some[0].id))
        figures["take_over_s"] = round(seconds(store.take_over), 2)
    figures["open_s"] = round(seconds(lambda: KubernetesStore(api).close()), 2)
    return figures


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with own_cluster("measure") as cluster:
        api = Api.connect(cluster.kubeconfig, connections=16)
        emptied(api)
        print(json.dumps(measured(api, count)))
        api.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
