"""Telemetry of a server, chosen by its settings: its own workers, its whole machine, and GPUs from the best
available source.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from grus.controlplane.application_wiring import Telemetry
from grus.controlplane.monitoring.telemetry_collector import Facts, Watching, holding
from grus.controlplane.monitoring.worker_source import OwnSamples
from grus.controlplane.reconciler.loop import ControlLoop
from grus.model.identifiers import NodeId
from grus.model.interfaces import Engine
from grus.server.config import ServerSettings
from grus.telemetry.dcgm import DcgmSource
from grus.telemetry.device_provider import DeviceSource
from grus.telemetry.host_metrics import MachineSource, this_machine
from grus.telemetry.nvml_samples import NvmlSamples
from grus.telemetry.prometheus import PrometheusSource
from grus.telemetry.samples import SampleSource
from grus.telemetry.tsdb import Recorder


def telemetry(settings: ServerSettings, engine: Engine, pool: DeviceSource, stack: ExitStack) -> Telemetry:
    """Build the sampler when the loop exists; the stack closes its recorder."""

    def sampler(loop: ControlLoop, facts: Facts) -> Watching:
        recorder = Recorder(settings.places.state / "telemetry.db", hz=settings.hz, keep=settings.keep)
        stack.callback(recorder.close)
        own = OwnSamples(
            engine,
            lambda: holding(loop),
            nodes=lambda: loop.picture.nodes,
            pretended=pool.virtual,
            shortest=1 / settings.hz,
        )
        machine = MachineSource(this_machine(), interval=max(1.0, 1 / settings.hz))
        return Watching(engine, loop, recorder, [own, machine, *of_gpus(settings, pool)], facts=facts)

    return sampler


def of_gpus(settings: ServerSettings, pool: DeviceSource) -> Sequence[SampleSource]:
    """Return exporters or a Prometheus if there are any, else the driver itself; virtual GPUs are our own."""
    found: list[SampleSource] = []
    if settings.dcgm:
        pages = {url: NodeId(node) if node else None for url, node in settings.dcgm}
        found.append(DcgmSource(pages, interval=1 / settings.hz))
    if settings.prometheus:
        found.append(
            PrometheusSource(
                settings.prometheus, select=settings.prometheus_select, node_label=settings.node_label
            )
        )
    if not found and not pool.virtual:
        found += [NvmlSamples(node.id, interval=1 / settings.hz) for node in pool.nodes(())]
    return found
