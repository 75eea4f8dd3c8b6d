"""GPUs of many machines from one Prometheus that scrapes their DCGM exporters.

The query is for raw samples (a range of each series), so that each keeps the time of its scrape: the values
that Prometheus would fill in for up to five minutes after a series has ended are never seen. Its own `up`
shows which machines' exporters answer, and which labels are the target's rather than the exporter's.
"""

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from grus.model.identifiers import NodeId
from grus.telemetry.dcgm_fields import FIELDS, Meaning, Value
from grus.telemetry.exporter_scrape import Fetcher, Page, by
from grus.telemetry.missing_metrics import Missing, Roll, missing_of, name
from grus.telemetry.prometheus_exposition import number
from grus.telemetry.prometheus_labels import Labels, PrometheusSeries, Target, hosts, target_of, values
from grus.telemetry.samples import Batch, Subject

INTERVAL = 15.0
"""Seconds between two scrapes, until it is seen how many they are."""
PATIENCE = 5.0
_SILENT = 3
"""Intervals without a new sample after which a machine without other information is lost."""
_LONGEST = 600.0
"""Largest time span of a query, in seconds, after Prometheus did not answer for a while."""
Scrapes = Sequence[tuple[float, float]]
"""(moment, 1 if it went well) of each time that Prometheus scraped a target."""
_SELECTOR = "|".join(sorted(FIELDS))


@dataclass(slots=True)
class _QueryState:
    """State between two queries."""

    asked: float | None = None
    """Time of Prometheus's last answer."""
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=31))
    """Seconds between samples, as last seen."""
    jobs: set[str] = field(default_factory=set)
    """Names of the scrape jobs that GPUs were ever found in."""
    nodes: dict[Target, NodeId] = field(default_factory=dict)
    late: dict[Subject, float] = field(default_factory=dict)
    """Seconds between a GPU's newest sample, when it came, and the last scrape: not 0 if it is stamped."""
    own: dict[Target, Labels] = field(default_factory=dict)
    """Labels of the targets themselves."""


class PrometheusSource:
    """`SampleSource`: `url` is that of the server; `select` are further matchers, such as `cluster="a"`.

    `node_label` is the label that names the machine, where none of those that are common does.
    """

    def __init__(
        self,
        url: str,
        *,
        interval: float = INTERVAL,
        patience: float = PATIENCE,
        select: str = "",
        node_label: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._interval = interval
        self._patience = patience
        self._select = f",{select}" if select else ""
        self._node_label = node_label
        address = f"{url.rstrip('/')}/api/v1/query"
        self._series = Fetcher(address, patience=patience, headers=headers)
        self._up = Fetcher(address, patience=patience, headers=headers)
        self._known = _QueryState()
        self._meaning = Meaning()
        self._missing = Missing()
        self._roll = Roll()

    @property
    def shortest(self) -> float:
        return median(self._known.gaps) if self._known.gaps else self._interval

    @property
    def _pace(self) -> float:
        """Seconds between two scrapes at most, as far as they were seen."""
        return max(self._interval, self.shortest if self._known.gaps else INTERVAL)

    def sample(self, now: float) -> Batch:
        deadline = by(self._patience)
        self._series.ask(now, self._question(f'__name__=~"{_SELECTOR}"', now))
        self._ask_up(now)
        page = self._series.take(deadline)
        found = self._read(page, now)
        if found is None or page is None:
            return Batch((), self._missing.all())
        new = {target_of(one.labels).job for one in found} - self._known.jobs - {""}
        if new:  # without it, the owner of each label is unknown
            self._up.take(deadline)
            self._known.jobs |= new
            self._ask_up(now)
        up = self._read_up(self._up.take(deadline), page.at)
        self._known.asked = page.at
        return self._tell(found, up, now)

    def close(self) -> None:
        self._series.close()
        self._up.close()

    # ------------------------------------------------------------------------------------- the answer

    def _ask_up(self, now: float) -> None:
        if self._known.jobs:
            jobs = "|".join(sorted(_quoted(job) for job in self._known.jobs))
            self._up.ask(now, self._question(f'__name__="up",job=~"{jobs}"', now))

    def _question(self, matchers: str, now: float) -> dict[str, str]:
        asked = now if self._known.asked is None else self._known.asked
        since = max(0.0, now - asked) + 3 * self._pace
        span = max(1, round(min(_LONGEST, since)))
        return {"query": f"{{{matchers}{self._select}}}[{span}s]", "time": f"{now:.3f}"}

    def _read(self, page: Page | None, now: float) -> list[PrometheusSeries] | None:
        """Return the series of an answer; None if there is none, which is reported."""
        what = f"Prometheus {self._series.name}"
        if page is None or page.failure:
            why = page.failure if page else f"no answer in {self._patience:g} s"
            self._missing.lose(what, why, now if self._known.asked is None else self._known.asked)
            return None
        try:
            found = matrix(page.text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._missing.lose(what, f"its answer is not one of Prometheus's: {error}", page.at)
            return None
        self._missing.found(what)
        return found

    def _read_up(self, page: Page | None, until: float) -> dict[Target, Scrapes]:
        """Scrapes of the targets until that moment, with 1 for those that went well."""
        try:
            found = matrix(page.text) if page is not None and not page.failure else []
        except (ValueError, KeyError, TypeError, AttributeError):  # reported by the other query
            found = []
        scrapes: dict[Target, Scrapes] = {}
        for one in found:
            target = target_of(one.labels)
            self._known.own[target] = one.labels
            if points := [point for point in one.points if point[0] <= until]:
                scrapes[target] = points
        return scrapes

    def _tell(self, found: Sequence[PrometheusSeries], up: Mapping[Target, Scrapes], now: float) -> Batch:
        known = self._known
        known.nodes = hosts(found, known.own, self._node_label) | known.nodes
        new: list[tuple[Target, Value]] = []
        for one in found:
            target = target_of(one.labels)
            told = values(one, known.nodes[target], known.own.get(target, {}), self._roll.last)
            new += [(target, value) for value in told]
        samples, faults = self._meaning.read(value for _, value in new)
        self._enrol(new, up)
        self._judge(up, now)
        for subject in self._roll.gone(now):
            self._meaning.forget(subject)
            known.late.pop(subject, None)
            self._missing.found(name(subject))
        return Batch(tuple(samples), self._missing.all(), tuple(faults))

    def _enrol(self, new: Sequence[tuple[Target, Value]], up: Mapping[Target, Scrapes]) -> None:
        """Record the time of each GPU's samples, and the interval since the ones before."""
        for at, subject, target in _in_time(new):
            before = self._roll.last(subject)
            if math.isfinite(before) and before < at:
                self._known.gaps.append(at - before)
            self._known.late[subject] = max(0.0, up[target][-1][0] - at) if target in up else 0.0
            moved = self._roll.see(subject, str(target), at)
            if moved is not None:
                self._missing.found(name(moved))

    # --------------------------------------------------------------------------------- what is missing

    def _judge(self, up: Mapping[Target, Scrapes], now: float) -> None:
        what = f"GPUs of Prometheus {self._series.name}"
        if not self._known.nodes:
            self._missing.lose(what, "it has no series of a DCGM exporter", now)
            return
        self._missing.found(what)
        enrolled = self._roll.by_origin()
        for target, node in list(self._known.nodes.items()):
            machine = f"node {node} ({target.instance})"
            known = enrolled.get(str(target), [])
            if known:
                self._judge_target(machine, known, up.get(target, ()), now)
            else:  # gone for long, or another target reports its GPUs now
                del self._known.nodes[target]
                self._known.own.pop(target, None)
                self._missing.found(machine)

    def _judge_target(self, machine: str, known: Sequence[Subject], scrapes: Scrapes, now: float) -> None:
        last = max(self._heard(subject) for subject in known)
        if scrapes and scrapes[-1][1] == 0:
            self._missing.lose(machine, "its exporter does not answer Prometheus", last)
        elif now - last > _SILENT * self._pace:
            self._missing.lose(machine, "Prometheus has nothing new of it", last)
        else:
            self._missing.found(machine)
            present = [subject for subject in known if not self._vanished(subject, scrapes, last)]
            for subject in missing_of(known, present):
                why = "it is no longer among what its exporter tells"
                self._missing.lose(name(subject), why, self._roll.last(subject))
            for subject in present:
                self._missing.found(name(subject))

    def _vanished(self, subject: Subject, scrapes: Scrapes, newest: float) -> bool:
        """Return whether its machine was scraped twice without it: one scrape may not be written in full
        yet.
        """
        last = self._heard(subject)
        if scrapes:
            return sum(at > last for at, _ in scrapes) >= 2
        return newest - last > 1.5 * self._pace

    def _heard(self, subject: Subject) -> float:
        """The moment of the scrape that last brought something new of it."""
        return self._roll.last(subject) + self._known.late[subject]


def _in_time(new: Sequence[tuple[Target, Value]]) -> list[tuple[float, Subject, Target]]:
    found = {(value.at, value.subject, target) for target, value in new}
    return sorted(found, key=lambda one: (one[0], one[2], one[1].device or "", one[1].instance))


def matrix(answer: str) -> list[PrometheusSeries]:
    """The series of an answer to a question for a range; raises ValueError or KeyError if it is none."""
    read: Any = json.loads(answer)
    if read["status"] != "success":
        raise ValueError(str(read.get("error", "no success"))[:200])
    found = []
    for one in read["data"]["result"]:
        points = [(float(at), value) for at, text in one["values"] if (value := number(text)) is not None]
        if points:
            found.append(PrometheusSeries(dict(one["metric"]), tuple(points)))
    return found


def _quoted(text: str) -> str:
    """A name within a regular expression within a string of PromQL."""
    plain = "".join(char if char.isalnum() or char in "_-/" else f"\\{char}" for char in text)
    return plain.replace("\\", "\\\\")
