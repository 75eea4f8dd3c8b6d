"""Program of the profiler's DaemonSet: `python -m grus.kubernetes.profiler`.

It needs the rights to list and watch pods, to read its node, and to write annotations through the status of
both; of the node it reads /sys/fs/cgroup, and its GPUs if it asks the driver.
"""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import NODES, PODS
from grus.kubernetes.node.annotation_patcher import Address, Notes, Writer
from grus.kubernetes.node.cgroups import Groups
from grus.kubernetes.profiler.cgroup_usage import Hosts
from grus.kubernetes.profiler.loop import Loop
from grus.model.identifiers import NodeId
from grus.telemetry.dcgm import DcgmSource
from grus.telemetry.nvml_samples import NvmlSamples
from grus.telemetry.prometheus import PrometheusSource
from grus.telemetry.samples import SampleSource

logger = logging.getLogger("grus.kubernetes.profiler")

_DRIVER = Path("/dev/nvidiactl")


def options(words: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grus.kubernetes.profiler", description=__doc__)
    parser.add_argument("--node", default=environment.get("GRUS_NODE", ""), help="else GRUS_NODE says it")
    parser.add_argument("--kubeconfig", type=Path, default=None)
    parser.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup"))
    parser.add_argument("--gpus", choices=("auto", "nvml", "pretend", "none"), default="auto")
    parser.add_argument("--dcgm", default="", metavar="URL", help="a DCGM exporter, in place of the driver")
    parser.add_argument("--prometheus", default="", metavar="URL", help="a Prometheus, in place of either")
    parser.add_argument("--select", default="", metavar="LABELS", help='which of its series: node="n1"')
    parser.add_argument("--hz", type=float, default=1.0, help="samples a second, up to 10")
    found = parser.parse_args(words)
    if not found.node:
        parser.error("which node is this? Give --node, or GRUS_NODE in the environment")
    if found.dcgm and found.prometheus:
        parser.error("give --dcgm or --prometheus, not both: the same GPUs would be counted twice")
    if not 0.1 <= found.hz <= 10:
        parser.error("--hz must be from 0.1 to 10")
    return found


def source(found: argparse.Namespace) -> SampleSource | None:
    """Return the source of GPU samples; None if there is none."""
    node, interval = NodeId(found.node), 1.0 / found.hz
    if found.prometheus:
        return PrometheusSource(found.prometheus, interval=interval, select=found.select)
    if found.dcgm:
        return DcgmSource({found.dcgm: node}, interval=interval)
    if found.gpus == "nvml" or (found.gpus == "auto" and _DRIVER.exists()):
        return NvmlSamples(node, interval=interval)
    return None


def main(words: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    found = options(sys.argv[1:] if words is None else words, os.environ)
    api = Api.connect(found.kubeconfig)
    node = NodeId(found.node)

    def send(whom: Address, notes: Notes) -> None:
        guard = {"uid": whom.uid} if whom.uid else {}
        body = {"metadata": {**guard, "annotations": dict(notes)}}
        api.patch(PODS if whom.namespace else NODES, whom.name, body, whom.namespace, part="status")

    writer = Writer(send)
    measured = source(found)
    hosts = Hosts(Groups(found.cgroups), node, pretend=found.gpus == "pretend")
    present = api.get(NODES, node)["metadata"].get("annotations") or {}
    loop = Loop(node, measured, hosts, writer.put, present)

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a handler
        loop.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    reflector = Reflector(api, PODS, fields=f"spec.nodeName={node}", on_change=loop.change)
    logger.info("profiling %s", node)
    loop.run(1.0 / found.hz)
    reflector.close()
    writer.close()
    if measured is not None:
        measured.close()
    api.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
