"""Origin of a series of Prometheus: its scrape target, its machine, and its GPU.

If a target's own labels (its pod, its namespace) clash with the exporter's, the exporter's are renamed to
`exported_*`. If the exporter has no such labels, the target's are there alone: the exporter's own pod is then
not the GPU's. `up`, which carries a target's labels and no others, distinguishes them. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from grus.model.identifiers import NodeId
from grus.telemetry.dcgm_fields import Value, device, place
from grus.telemetry.samples import Subject

Labels = Mapping[str, str]

_NODE = ("node", "kubernetes_node", "nodename", "Hostname", "hostname")
"""Labels that name a machine, the surest first: a `Hostname` may be that of the exporter's pod."""


class Target(NamedTuple):
    """Scrape target of Prometheus; its two labels of that name are never the exporter's."""

    job: str
    instance: str


class PrometheusSeries(NamedTuple):
    labels: Labels
    points: tuple[tuple[float, float], ...]
    """(moment, value), ascending; at least one."""


def target_of(labels: Labels) -> Target:
    return Target(labels.get("job", ""), labels.get("instance", ""))


def said(labels: Labels, name: str, own: Labels) -> str:
    """Return the exporter's own value of this label; `own` are the target's labels."""
    exported = labels.get(f"exported_{name}", "")
    if exported:
        return exported
    value = labels.get(name, "")
    return "" if value == own.get(name) else value


def hosts(
    found: Iterable[PrometheusSeries], own: Mapping[Target, Labels], label: str = ""
) -> dict[Target, NodeId]:
    """The machine of each target. Two targets that give one name to different GPUs are two machines."""
    names: dict[Target, str] = {}
    gpus: dict[Target, set[str]] = {}
    for one in found:
        target = target_of(one.labels)
        names[target] = names.get(target) or _name(one.labels, own.get(target, {}), label)
        gpu = one.labels.get("UUID") or f"{target}/{one.labels.get('gpu')}"
        gpus.setdefault(target, set()).add(gpu)
    namesakes: dict[str, list[Target]] = {}
    for target, host in names.items():
        namesakes.setdefault(host, []).append(target)
    return {
        target: NodeId(_told_apart(target, host, namesakes[host], gpus)) for target, host in names.items()
    }


def _told_apart(target: Target, host: str, named: Iterable[Target], gpus: Mapping[Target, set[str]]) -> str:
    if host and all(gpus[target] & gpus[other] for other in named):
        return host
    return f"{host}@{target.instance}".lstrip("@")


def _name(labels: Labels, own: Labels, label: str) -> str:
    """Return the machine's name as the labels have it. It may well be a target's label."""
    for name in (label, *_NODE) if label else _NODE:
        value = said(labels, name, own) or labels.get(name, "")
        if value:
            return value
    return ""


def values(
    series: PrometheusSeries, node: NodeId, own: Labels, last: Callable[[Subject], float]
) -> Iterator[Value]:
    """Return a series' values of its GPU after the time that `last` returns; nothing if it names no GPU."""
    labels = series.labels
    gpu = device(labels, node)
    if gpu is None:
        return
    pod, space = said(labels, "pod", own), said(labels, "namespace", own)
    field = labels["__name__"]
    subject = place(field, node, gpu, labels.get("GPU_I_ID", ""))
    holder = f"{space}/{pod}" if pod else ""
    known = last(subject)
    for at, value in series.points:
        if at > known:
            yield Value(subject, at, field, value, holder)
