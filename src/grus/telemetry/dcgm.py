"""GPU telemetry from NVIDIA's DCGM exporters, one exporter per machine, read over HTTP.

An exporter measures at an interval of its own (30 s by default) and repeats itself in between: an unchanged
page gives no samples, and a page that is unchanged for too long means that its exporter hangs. The interval
of its measurements is inferred from the changes of its page.
"""

import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import urlsplit

from grus.model.identifiers import NodeId
from grus.telemetry.dcgm_fields import ENERGY, FIELDS, Meaning, Value, device, place
from grus.telemetry.exporter_scrape import Fetcher, Page, by
from grus.telemetry.missing_metrics import Missing, Roll, missing_of, name
from grus.telemetry.prometheus_exposition import MetricSample, rows
from grus.telemetry.samples import Batch, Fault, Sample, Subject

MEASURED = 30.0
"""Seconds between two measurements of an exporter with default settings."""
INTERVAL = 1.0
"""Seconds between two looks at its page."""
PATIENCE = 2.0
_FROZEN = 4
"""Measurements without a change of any energy counter after which an exporter hangs."""
_ENERGY = re.compile(rf"^{ENERGY}\b", re.MULTILINE)


@dataclass(slots=True)
class _Exporter:
    fetcher: Fetcher
    node: NodeId | None
    text: str = ""
    """GPU part of its last page."""
    changed: float | None = None
    """Time of the last change of its page."""
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=15))
    """Seconds between its last changes."""
    told: float = -math.inf
    """Time of the last samples made of it."""

    @property
    def pace(self) -> float:
        """Seconds between two measurements, as far as they were seen."""
        return median(self.gaps) if self.gaps else MEASURED

    @property
    def slow(self) -> float:
        """Return the seconds in which it has surely measured again."""
        return max(self.pace, MEASURED)

    def says(self, page: Page) -> bool:
        """Take over what the page says; whether that is anything new."""
        text = "\n".join(line for line in page.text.splitlines() if line.startswith("DCGM_"))
        if text == self.text and self.changed is not None:
            return False
        if self.changed is not None:
            self.gaps.append(page.at - self.changed)
        self.text, self.changed = text, page.at
        return True

    @property
    def counts(self) -> bool:
        """Return whether its page must change at each measurement: energy grows as long as there is power."""
        return _ENERGY.search(self.text) is not None

    def silent(self, at: float) -> float:
        """Seconds since it last said anything new."""
        return 0.0 if self.changed is None else at - self.changed


class DcgmSource:
    """`SampleSource` of one or several exporters: addresses of their pages, each with its node if one knows
    it.

    Without a node, the name is the page's own word (`Hostname`, `hostname`), else the address's host. Behind
    Kubernetes the page's word may be the name of the exporter's pod: then tell the node.
    """

    def __init__(
        self,
        exporters: Mapping[str, NodeId | None],
        *,
        interval: float = INTERVAL,
        patience: float = PATIENCE,
    ) -> None:
        self._interval = interval
        self._patience = patience
        self._exporters = [
            _Exporter(Fetcher(url, patience=patience), node) for url, node in sorted(exporters.items())
        ]
        self._meaning = Meaning()
        self._missing = Missing()
        self._roll = Roll()
        self._hosts: dict[NodeId, str] = {}

    @property
    def shortest(self) -> float:
        """Return the interval of the exporter that measures least often; until it is known, the interval of
        the looks.
        """
        return max((one.pace for one in self._exporters if one.gaps), default=self._interval)

    def sample(self, now: float) -> Batch:
        for one in self._exporters:
            one.fetcher.ask(now)
        deadline = by(self._patience)
        samples: list[Sample] = []
        faults: list[Fault] = []
        for one in self._exporters:
            found, wrong = self._look(one, one.fetcher.take(deadline), now)
            samples += found
            faults += wrong
        for subject in self._roll.gone(now):
            self._meaning.forget(subject)
            self._missing.found(name(subject))
        return Batch(tuple(samples), self._missing.all(), tuple(faults))

    def close(self) -> None:
        for one in self._exporters:
            one.fetcher.close()

    def _look(self, one: _Exporter, page: Page | None, now: float) -> tuple[list[Sample], list[Fault]]:
        what = f"exporter {one.fetcher.name}"
        if page is None or page.failure:
            why = page.failure if page else f"no answer in {self._patience:g} s"
            self._missing.lose(what, why, now - one.silent(now))
            return [], []
        new = one.says(page)
        if one.counts and one.silent(page.at) >= _FROZEN * one.slow:
            self._missing.lose(what, "it repeats the same values", page.at - one.silent(page.at))
            return [], []
        self._missing.found(what)
        if not new and (one.counts or page.at - one.told < one.slow):
            return [], []
        one.told = page.at
        return self._read(one, page.at, what)

    def _read(self, one: _Exporter, at: float, what: str) -> tuple[list[Sample], list[Fault]]:
        found = [value for row in rows(one.text, FIELDS) if (value := self._value(one, row, at)) is not None]
        fresh = [value for value in found if value.at > self._roll.last(value.subject)]
        samples, faults = self._meaning.read(fresh)
        for value in found:
            moved = self._roll.see(value.subject, one.fetcher.name, value.at)
            if moved is not None:
                self._missing.found(name(moved))
        self._count(one, {value.subject for value in found}, at)
        if not found:
            self._missing.lose(what, "its page has no GPU on it", at)
        return samples, faults

    def _count(self, one: _Exporter, present: set[Subject], at: float) -> None:
        """Update which GPUs of this exporter are present, and which are missing."""
        for subject in missing_of(self._roll.of(one.fetcher.name), present):
            self._missing.lose(name(subject), "it is no longer on its exporter's page", at)
        for subject in present:
            last = self._roll.last(subject)
            if at - last < _FROZEN * one.slow:
                self._missing.found(name(subject))
            else:
                self._missing.lose(name(subject), "its exporter tells old values only", last)

    def _host(self, one: _Exporter, said: str) -> NodeId:
        """The name that the page gives its machine, unless another exporter's machine has it already."""
        place = urlsplit(one.fetcher.name)
        host = NodeId(said or place.hostname or "")
        owner = self._hosts.setdefault(host, one.fetcher.name)
        return host if owner == one.fetcher.name else NodeId(f"{host}@{place.netloc}")

    def _value(self, one: _Exporter, row: MetricSample, at: float) -> Value | None:
        labels = row.labels
        node = one.node or self._host(one, labels.get("Hostname") or labels.get("hostname") or "")
        gpu = device(labels, node)
        if gpu is None:
            return None
        pod = labels.get("pod") or labels.get("pod_name") or ""
        space = labels.get("namespace") or labels.get("pod_namespace") or ""
        return Value(
            subject=place(row.name, node, gpu, labels.get("GPU_I_ID", "")),
            at=at if row.at is None else row.at,
            field=row.name,
            value=row.value,
            holder=f"{space}/{pod}" if pod else "",
        )
