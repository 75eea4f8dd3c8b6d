"""Telemetry for Prometheus: measurements of GPUs, recognized activity, use by queues' workers and machines.

Labels are devices, nodes and queues. A value that was not measured lately is absent, so that Prometheus sees
it end instead of a last value that lasts.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily

from grus.controlplane.monitoring.series_query import Figures
from grus.model.identifiers import QueueName
from grus.telemetry.samples import Measure, Subject

DEVICE = ("node", "device", "instance")
OF_DEVICES = {
    Measure.UTILISATION: ("utilisation_ratio", "Part of the time in which any kernel ran."),
    Measure.ACTIVE: ("active_ratio", "Part of the compute units at work."),
    Measure.MEMORY_TIME: ("memory_time_ratio", "Part of the time in which the memory interface was busy."),
    Measure.MEMORY: ("memory_bytes", "GPU memory that is taken."),
    Measure.POWER: ("power_watts", "Power."),
    Measure.TEMPERATURE: ("temperature_celsius", "Temperature."),
}
OF_HOSTS = {
    Measure.CPU: ("cpu_cores", "Cores in use."),
    Measure.HOST_MEMORY: ("host_memory_bytes", "Host memory in use."),
    Measure.DISK_READ: ("disk_read_bytes_per_second", "What is fetched from disks."),
    Measure.DISK_WRITE: ("disk_write_bytes_per_second", "What is sent to disks."),
    Measure.NETWORK_IN: ("network_in_bytes_per_second", "What is received."),
    Measure.NETWORK_OUT: ("network_out_bytes_per_second", "What is sent."),
}
"""For queues, values of its workers' own processes; for nodes, values of the whole machine."""


OF_THE_POOL = {
    Measure.HELD: ("held_gpus", "GPUs that jobs hold."),
    Measure.DEMAND: ("demand_gpus", "GPUs that jobs hold or could use."),
    Measure.CAPACITY: ("capacity_gpus", "GPUs that may be used."),
    Measure.STRANDED: ("stranded_gpus", "GPUs that are free but of no use to any job that waits."),
}


def families(found: Figures) -> Iterator[GaugeMetricFamily]:
    for measure, (name, text) in OF_THE_POOL.items():
        if measure in found.pool:
            yield _single(f"grus_pool_{name}", text, found.pool[measure])
    yield from _of_devices(found)
    yield from _of_tags(found)
    yield from _of_hosts(found)
    yield _single(
        "grus_telemetry_lost", "Sources, nodes and GPUs that are not measured any more.", len(found.lost)
    )
    yield _single("grus_telemetry_recorded_bytes", "Size of the recorder's file.", found.size)
    yield _single("grus_telemetry_sample_seconds", "Time between two samples.", found.every)


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _labels(subject: Subject) -> tuple[str, str, str]:
    return subject.node, subject.device or "", subject.instance


def _of_devices(found: Figures) -> Iterator[GaugeMetricFamily]:
    for measure, (name, text) in OF_DEVICES.items():
        family = _gauge(f"grus_device_{name}", text, DEVICE)
        for sample in found.samples:
            if sample.subject.device is not None and measure in sample.values:
                family.add_metric(_labels(sample.subject), sample.values[measure])
        yield family
    faults = _gauge("grus_device_fault_code", "The last error that its driver told (XID).", DEVICE)
    for fault in found.faults:
        faults.add_metric(_labels(fault.subject), fault.code)
    yield faults


def _of_tags(found: Figures) -> Iterator[GaugeMetricFamily]:
    kinds = _gauge("grus_device_kind", "1 for what was recognised there.", (*DEVICE, "kind"))
    periods = _gauge("grus_device_period_seconds", "The rhythm that was recognised there.", DEVICE)
    hung = _gauge("grus_device_hung", "1 if what holds it makes no progress.", DEVICE)
    for subject, tag in found.tags.items():
        if subject.device is not None:
            kinds.add_metric((*_labels(subject), tag.kind.value), 1)
            hung.add_metric(_labels(subject), tag.hung_since is not None)
            if tag.period is not None:
                periods.add_metric(_labels(subject), tag.period)
    yield from (kinds, periods, hung)


def _of_hosts(found: Figures) -> Iterator[GaugeMetricFamily]:
    for measure, (name, text) in OF_HOSTS.items():
        queues = _gauge(f"grus_queue_{name}", f"{text} By the queue's workers.", ["queue"])
        nodes = _gauge(f"grus_node_{name}", f"{text} By the whole machine.", ["node"])
        sums: dict[QueueName, float] = {}
        for sample in found.samples:
            subject = sample.subject
            if measure not in sample.values:
                continue
            if subject == Subject(subject.node):
                nodes.add_metric([subject.node], sample.values[measure])
            elif subject.job is not None and (queue := found.queues.get(subject.job)) is not None:
                sums[queue] = sums.get(queue, 0.0) + sample.values[measure]
        for queue, amount in sums.items():
            queues.add_metric([queue], amount)
        yield from (queues, nodes)
