"""`python -m grus.kubernetes.agent`: the program of the DaemonSet.

It needs the node's processes (hostPID) and, of the node, /var/lib/kubelet/pods and /sys/fs/cgroup; the rights
to list and watch pods and to patch their status; and the capabilities KILL, DAC_OVERRIDE and SYS_PTRACE.
"""

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from grus.kubernetes.agent.loop import Loop, NodePaths
from grus.kubernetes.agent.usage import Gpus, MeasuredGpus, NoGpus, VirtualGpus
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import PODS
from grus.kubernetes.node.annotation_patcher import Address, Notes, Writer
from grus.telemetry.nvidia_nvml import NvmlSource

logger = logging.getLogger("grus.kubernetes.agent")

_DRIVER = Path("/dev/nvidiactl")


def options(words: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grus.kubernetes.agent", description=__doc__)
    parser.add_argument("--node", default=environment.get("GRUS_NODE", ""), help="else GRUS_NODE says it")
    parser.add_argument("--kubeconfig", type=Path, default=None)
    pods = Path(environment.get("GRUS_KUBELET_PODS") or "/var/lib/kubelet/pods")
    parser.add_argument("--pods", type=Path, default=pods, help="where the kubelet keeps pods' volumes")
    parser.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup"))
    parser.add_argument("--gpus", choices=("auto", "nvml", "pretend", "none"), default="auto")
    found = parser.parse_args(words)
    if not found.node:
        parser.error("which node is this? Give --node, or GRUS_NODE in the environment")
    return found


@contextmanager
def gpus(kind: str) -> Iterator[Gpus]:
    """Yield the measurement of this node's GPUs; `auto` asks the driver if there is one."""
    if kind == "pretend":
        yield VirtualGpus()
    elif kind == "nvml" or (kind == "auto" and _DRIVER.exists()):
        source = NvmlSource()
        source.open(lambda readings: frozenset())  # noqa: ARG005 - whose they are does not matter here
        yield MeasuredGpus(source)
        source.close()
    else:
        yield NoGpus()


def own_pod(environment: Mapping[str, str], namespace: str) -> Address | None:
    """Return the pod that this runs in; None outside of a cluster.

    If no variable names the pod, its name is the host name.
    """
    if "KUBERNETES_SERVICE_HOST" not in environment:
        return None
    name = environment.get("GRUS_POD") or socket.gethostname()
    return Address(environment.get("GRUS_NAMESPACE") or namespace, name, environment.get("GRUS_POD_UID", ""))


def main(words: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    found = options(sys.argv[1:] if words is None else words, os.environ)
    api = Api.connect(found.kubeconfig)

    def send(pod: Address, notes: Notes) -> None:
        guard = {"uid": pod.uid} if pod.uid else {}
        body = {"metadata": {**guard, "annotations": dict(notes)}}
        api.patch(PODS, pod.name, body, pod.namespace, part="status")

    writer = Writer(send)
    with gpus(found.gpus) as measured:
        loop = Loop(
            NodePaths(found.pods, found.cgroups), writer, measured, own_pod(os.environ, api.namespace)
        )

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a handler
            loop.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        reflector = Reflector(api, PODS, fields=f"spec.nodeName={found.node}", on_change=loop.change)
        logger.info("looking after the workers on %s", found.node)
        loop.run()
        reflector.close()
    writer.close()
    api.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
