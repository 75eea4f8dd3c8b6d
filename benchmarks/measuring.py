"""What it costs to measure workers and GPUs, in CPU time. `python -m benchmarks.measuring [--quick]`

50 real workers, each with open files and TCP connections, are looked at by the local engine as the server
does it. `look_ms`: one look (CPU, memory, disk). `network_ms`: one count of the network, at most once a
second. `share_10_hz` and `share_1_hz`: cores in use for that at so many looks a second. `prometheus_ms`: one
answer of a Prometheus with 1,000 GPUs, read; `prometheus_share`: cores in use for that every 15 s.
Each is the median of several.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import facts, wait_for
from grus.engines.local import processes
from grus.engines.local.engine import LocalEngine
from grus.engines.local.usage import trees
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState
from grus.model.resources import GPU
from grus.telemetry.dcgm_fields import FIELDS
from grus.telemetry.network_traffic import EVERY, Traffic
from grus.telemetry.prometheus import INTERVAL, matrix
from grus.telemetry.prometheus_labels import hosts, target_of, values
from grus.telemetry.virtual_gpus import VirtualSource

CONNECTIONS, FILES = 4, 40
WORKER = f"""
import socket, time
server = socket.create_server(("127.0.0.1", 0))
ends = [socket.create_connection(server.getsockname()) for _ in range({CONNECTIONS})]
others = [server.accept()[0] for _ in ends]
files = [open("/dev/null") for _ in range({FILES})]
print("ready", flush=True)
time.sleep(3600)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick: bool = parser.parse_args().quick
    workers, gpus, times = (5, 100, 5) if quick else (50, 1000, 30)
    look, network, others = of_workers(workers, times)
    answer = of_prometheus(gpus, max(5, times // 3))
    figures = {
        "workers": workers,
        "processes": others,
        "look_ms": round(look * 1000, 2),
        "network_ms": round(network * 1000, 2),
        "share_10_hz": round(10 * look + network / EVERY, 4),
        "share_1_hz": round(look + network / EVERY, 4),
        "gpus": gpus,
        "prometheus_ms": round(answer * 1000, 1),
        "prometheus_share": round(answer / INTERVAL, 4),
        **facts(),
    }
    print(json.dumps(figures))
    return 0


def of_workers(count: int, times: int) -> tuple[float, float, int]:
    """CPU seconds of a look and of a count of the network; and how many processes the machine has."""
    with tempfile.TemporaryDirectory() as folder:
        # With a clock that stands, the network is counted once: it is measured on its own.
        engine = LocalEngine(Path(folder), VirtualSource(f"1x{count}x16GB"), clock=lambda: 1e9)
        engine.open(1)
        try:
            tell(f"starting {count} workers …")
            for number in range(count):
                engine.start(a_worker(number))
            wait_for(lambda: ready(engine), 120, "all workers to be ready", every=0.2)
            engine.usage()
            look = cost(engine.usage, times)
            assert engine._running is not None
            groups = {id_: tree.pids for id_, tree in trees([*engine._running.records.values()]).items()}
            traffic: Traffic[WorkerId] = Traffic(every=0)
            network = cost(lambda: traffic.count(groups, time.time()), times)
            return look, network, len(processes.scan())
        finally:
            for status in engine.workers():
                engine.stop(status.id, 0)
            wait_for(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()), 60, "all ends")
            engine.close()


def a_worker(number: int) -> WorkerSpec:
    name = f"measured-{number}"
    return WorkerSpec(
        id=WorkerId(name),
        job=JobId(name),
        attempt=1,
        node=NodeId("node-0"),
        argv=(sys.executable, "-I", "-S", "-c", WORKER),
        env=(),
        workdir="/",
        devices=(DeviceId(f"node-0/gpu-{number}"),),
        share=GPU,
    )


def ready(engine: LocalEngine) -> bool:
    return all(b"ready" in engine.log(status.id)[0] for status in engine.workers())


def of_prometheus(gpus: int, times: int) -> float:
    """CPU seconds to read an answer of 4 scrapes, of which one is new."""
    tell(f"reading answers of {gpus} GPUs …")
    answer = an_answer(gpus)

    def read() -> None:
        found = matrix(answer)
        nodes = hosts(found, {})
        for one in found:
            list(values(one, nodes[target_of(one.labels)], {}, lambda _: 2 * INTERVAL))

    return cost(read, times)


def an_answer(gpus: int) -> str:
    points = [[number * INTERVAL, str(40 + number)] for number in range(4)]
    series = [
        {
            "metric": {
                "__name__": field,
                "gpu": str(gpu % 8),
                "UUID": f"GPU-{gpu:08d}-0000-0000-0000-000000000000",
                "device": f"nvidia{gpu % 8}",
                "Hostname": f"node-{gpu // 8}",
                "instance": f"node-{gpu // 8}:9400",
                "job": "dcgm",
                "pod": "exporter",
                "exported_pod": f"train-{gpu}",
                "exported_namespace": "team",
            },
            "values": points,
        }
        for gpu in range(gpus)
        for field in sorted(FIELDS)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


def cost(work: Callable[[], object], times: int) -> float:
    """Median CPU seconds of a call."""
    found = []
    for _ in range(times):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return statistics.median(found)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
