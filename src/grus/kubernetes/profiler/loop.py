"""Profiler loop: one thread samples, recognizes, and writes changes, again and again.

The tags written follow from the measurements and from the tags written before: each is sent once. A restarted
profiler reads the existing annotations, and removes those that are no longer true.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grus.kubernetes.names import TAG
from grus.kubernetes.node import tag_annotations
from grus.kubernetes.node.annotation_patcher import Address, Notes
from grus.kubernetes.profiler.attribution import holders, merged, of_pods
from grus.kubernetes.profiler.cgroup_usage import Hosts
from grus.kubernetes.profiler.gpu_numbers import Numbers
from grus.kubernetes.profiler.pods import GpuPod, gpu_pod
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, NodeId
from grus.model.worker_reports import report_lines
from grus.sdk.sigterm import SignalFlag
from grus.telemetry.samples import Batch, LostMeasure, Sample, SampleSource
from grus.telemetry.telemetry_analyzer import JobFacts, Profiler

logger = logging.getLogger(__name__)

FAILED = 5.0
"""Seconds after a round that failed."""

Put = Callable[[Address, Notes], None]


class Loop:
    """`change` and `stop` may be called from any thread, everything else from the one that calls `run`."""

    def __init__(
        self, node: NodeId, source: SampleSource | None, hosts: Hosts, put: Put, notes: Mapping[str, str]
    ) -> None:
        self._node = node
        self._source = source
        self._hosts = hosts
        self._put = put
        self._profiler = Profiler()
        self._numbers = Numbers(notes)
        self._on_node = {name: text for name, text in notes.items() if tag_annotations.ours(name)}
        """The tags on the node, as far as they were written here or found."""
        self._on_pods: dict[str, dict[str, str]] = {}
        """The same of pods, by uid."""
        self._pods: dict[str, GpuPod] = {}
        self._left: dict[str, GpuPod] = {}
        """Pods that are there no longer, or run no longer, until that was taken in."""
        self._lost: tuple[LostMeasure, ...] = ()
        self._guard = threading.Lock()
        self._stopped = SignalFlag()

    def change(self, event: str, pod: Mapping[str, Any]) -> None:
        """Process a reflector's event: ADDED, MODIFIED or DELETED."""
        found = gpu_pod(pod) if event != "DELETED" else None
        uid = pod["metadata"]["uid"]
        with self._guard:
            if found is not None:
                self._pods[uid] = found
            elif (known := self._pods.pop(uid, None)) is not None:
                self._left[uid] = known
            elif event != "DELETED":
                self._note_stale(pod)

    def _note_stale(self, pod: Mapping[str, Any]) -> None:
        """A pod that ended while no profiler ran, and still wears its tag."""
        metadata = pod["metadata"]
        tags = {name: text for name, text in (metadata.get("annotations") or {}).items() if name == TAG}
        if tags and metadata["uid"] not in self._on_pods:
            stale = GpuPod(metadata["uid"], metadata["name"], metadata["namespace"], (), (), "", tags, False)
            self._left[stale.uid] = stale

    def stop(self) -> None:
        """A signal's handler may call it, too."""
        self._stopped.set()

    def run(self, every: float) -> None:
        """Run until stopped; a round every so many seconds."""
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due = max(due + every, time.monotonic())
            try:
                self.round(time.time())
            except Exception:  # the edge of the program: the next round may do better
                logger.exception("a round failed; the next one comes")
                due = time.monotonic() + FAILED

    def round(self, now: float) -> None:
        """Everything once."""
        with self._guard:
            pods, left, self._left = list(self._pods.values()), self._left, {}
        for pod in left.values():
            self._part(pod, now)
        batch = self._sample(pods, now)
        self._profiler.take(batch)
        self._introduce(pods, batch.samples)
        self._tell_node(now)
        self._tell_pods(pods, now)

    # ------------------------------------------------------------------------------- steps of a round

    def _sample(self, pods: Sequence[GpuPod], now: float) -> Batch:
        found = self._source.sample(now) if self._source is not None else Batch()
        self._say_lost(found.lost)
        hosts = self._hosts.sample(pods, now)
        mine = [sample for sample in found.samples if sample.subject.node == self._node]
        devices = [*mine, *(sample for sample in hosts if sample.subject.device is not None)]
        workers = merged(
            [*of_pods(mine, pods, self._node), *(one for one in hosts if one.subject.device is None)]
        )
        return Batch((*devices, *workers), found.lost)

    def _say_lost(self, lost: tuple[LostMeasure, ...]) -> None:
        before = {one.what for one in self._lost}
        for one in lost:
            if one.what not in before:
                logger.warning("%s is not measured any more: %s", one.what, one.why)
        self._lost = lost

    def _introduce(self, pods: Sequence[GpuPod], samples: Sequence[Sample]) -> None:
        devices = holders(samples, pods)
        for pod in pods:
            self._profiler.known(JobId(pod.uid), JobFacts(devices=devices.get(pod.uid, frozenset())))
            said = report_lines.read(pod.said)
            if said.at is not None:
                self._profiler.hear(JobId(pod.uid), dict(said.figures), said.at, saved_at=said.saved_at)

    def _tell_node(self, now: float) -> None:
        found = {one: tag for one, tag in self._profiler.tags(now).items() if one.device is not None}
        wanted = {self._numbers.annotation(one): (one, tag) for one, tag in found.items()}
        tags = {name: tag for name, (_, tag) in wanted.items()}
        devices = {name: str(one.device) for name, (one, _) in wanted.items()}
        self._tell(Address("", self._node, ""), self._on_node, tags, now, devices)

    def _tell_pods(self, pods: Sequence[GpuPod], now: float) -> None:
        found = self._profiler.jobs(now)
        for pod in pods:
            tag = found.get(JobId(pod.uid))
            known = self._on_pods.setdefault(pod.uid, dict(pod.tags))
            self._tell(_address(pod), known, {} if tag is None else {TAG: tag}, now)

    def _part(self, pod: GpuPod, now: float) -> None:
        self._profiler.forget(JobId(pod.uid))
        self._tell(_address(pod), self._on_pods.pop(pod.uid, dict(pod.tags)), {}, now)

    def _tell(
        self,
        whom: Address,
        known: dict[str, str],
        wanted: Mapping[str, Tag],
        now: float,
        devices: Mapping[str, str] | None = None,
    ) -> None:
        notes = tag_annotations.changes(known, wanted, now, devices)
        if not notes:
            return
        self._put(whom, notes)
        for name, text in notes.items():
            if text is None:
                del known[name]
            else:
                known[name] = text


def _address(pod: GpuPod) -> Address:
    return Address(pod.namespace, pod.name, pod.uid)
