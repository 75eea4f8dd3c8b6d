"""A real Prometheus that scrapes pretended DCGM exporters: nodes, labels, loss and time survive the way."""

import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import yaml

from grus.telemetry.prometheus import PrometheusSource
from grus.telemetry.samples import Batch, Fault, Measure, Sample, Subject
from tests.contracts.engine_contract import until
from tests.telemetry.exporter import NEW, OLD, Exporter, Gpu, Port, a_gpu, a_port, served

PROGRAM = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Debian's package prometheus")

SCRAPE = 0.2
"""Seconds. On a busy machine an exporter may miss one, so that what is lost is waited for."""
BUSY = {"GPU_UTIL": 97, "MEM_COPY_UTIL": 51, "FB_USED": 1024, "POWER_USAGE": 289.5}
U = Measure.UTILISATION


class Server:
    """Prometheus on loopback, with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config = folder / "prometheus.yml"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def scrapes(self, slots: Sequence["Slot"]) -> None:
        jobs = []
        for honor in (False, True):
            groups = [
                {"targets": [slot.port.place], "labels": {**slot.labels, "slot": slot.name}}
                for slot in slots
                if slot.honor is honor
            ]
            jobs.append({"job_name": f"dcgm {honor}", "honor_labels": honor, "static_configs": groups})
        pace = {"scrape_interval": f"{SCRAPE * 1000:.0f}ms", "scrape_timeout": f"{SCRAPE * 1000:.0f}ms"}
        self._config.write_text(yaml.safe_dump({"global": pace, "scrape_configs": jobs}))

    def start(self) -> None:
        assert PROGRAM is not None
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    PROGRAM,
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
                env={"GOMAXPROCS": "1"},
            )
        until(self._ready)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return httpx2.get(f"{self.url}/-/ready", trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def labels(self, metric: str) -> list[dict[str, str]]:
        answer = httpx2.get(f"{self.url}/api/v1/query", params={"query": metric}, trust_env=False)
        return [one["metric"] for one in json.loads(answer.text)["data"]["result"]]


class Watch:
    """All that a source has told so far."""

    def __init__(self, source: PrometheusSource) -> None:
        self.source = source
        self.samples: dict[Subject, list[Sample]] = {}
        self.faults: list[Fault] = []
        self.last = Batch()

    def look(self) -> "Watch":
        self.last = self.source.sample(time.time())
        for sample in self.last.samples:
            self.samples.setdefault(sample.subject, []).append(sample)
        self.faults += self.last.faults
        return self

    def until(self, true: Callable[["Watch"], bool]) -> None:
        until(lambda: true(self.look()))

    def newest(self, device: str, instance: str = "") -> Sample | None:
        found = [
            samples[-1]
            for subject, samples in self.samples.items()
            if (subject.device, subject.instance) == (device, instance)
        ]
        return max(found, key=lambda sample: sample.at, default=None)

    def value(self, device: str, measure: Measure = U, instance: str = "") -> float | None:
        newest = self.newest(device, instance)
        return None if newest is None else newest.values.get(measure)

    def more(self, device: str, count: int) -> None:
        """Until so many more samples of the GPU have come."""
        before = self.count(device)
        self.until(lambda watch: watch.count(device) >= before + count)

    def count(self, device: str) -> int:
        return sum(len(one) for subject, one in self.samples.items() if subject.device == device)

    @property
    def lost(self) -> list[str]:
        return [lost.what for lost in self.last.lost]


@dataclass
class Slot:
    """A target of the one Prometheus: it takes seconds to notice new ones, so they are there beforehand."""

    name: str
    labels: dict[str, str]
    port: Port
    honor: bool = False


class World:
    """Targets, the Prometheus that scrapes them, and the sources that ask it."""

    def __init__(self, server: Server, slots: list[Slot]) -> None:
        self.server = server
        self._free = slots
        self._sources: list[PrometheusSource] = []

    def begin(
        self,
        *targets: tuple[Exporter, dict[str, str]],
        honor: bool = False,
        interval: float = SCRAPE,
    ) -> Watch:
        taken = [self._serve(exporter, labels, honor) for exporter, labels in targets]
        select = f'slot=~"{"|".join(taken)}"'
        self._sources.append(PrometheusSource(self.server.url, interval=interval, patience=10, select=select))
        return Watch(self._sources[-1])

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def _serve(self, exporter: Exporter, labels: dict[str, str], honor: bool) -> str:
        slot = next(slot for slot in self._free if (slot.labels, slot.honor) == (labels, honor))
        self._free.remove(slot)
        slot.port.serve(exporter)
        return slot.name


def in_pod(letter: str) -> dict[str, str]:
    """Labels that Prometheus gives a target that it found in Kubernetes."""
    return {"namespace": "gpu-operator", "pod": f"dcgm-exporter-{letter}", "container": "exporter"}


KINDS = [*[({}, False)] * 13, *[(in_pod("a"), False)] * 4, (in_pod("b"), False), ({"node": "n1"}, False)]
"""Labels of the targets that the tests use up, and whether Prometheus honours the exporter's own."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        slots = [
            Slot(str(number), labels, stack.enter_context(a_port()), honor)
            for number, (labels, honor) in enumerate([*KINDS, (in_pod("a"), True)])
        ]
        server = Server(tmp_path_factory.mktemp("prometheus"))
        server.scrapes(slots)
        stack.callback(server.stop)
        server.start()
        world = World(server, slots)
        stack.callback(world.close)
        yield world


def test_two_nodes_in_both_dialects_are_never_mixed_up_and_clashing_labels_are_told_apart(
    world: World,
) -> None:
    old = Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY, "team/train-0"), a_gpu(1, "GPU-b", BUSY)])
    new = Exporter("gpu-b", NEW, [a_gpu(0, "GPU-c", {**BUSY, "GPU_UTIL": 5}, "team/train-1")])
    watch = world.begin((old, in_pod("a")), (new, in_pod("b")))
    watch.until(lambda watch: len(watch.samples) == 3)
    assert {(subject.node, subject.device) for subject in watch.samples} == {
        ("gpu-a", "GPU-a"),
        ("gpu-a", "GPU-b"),
        ("gpu-b", "GPU-c"),
    }
    assert {watch.value("GPU-a"), watch.value("GPU-c")} == {0.97, 0.05}

    raw = {labels["UUID"]: labels for labels in world.server.labels('DCGM_FI_DEV_GPU_UTIL{slot!=""}')}
    assert (raw["GPU-a"]["exported_pod"], raw["GPU-a"]["pod"]) == ("train-0", "dcgm-exporter-a")
    assert raw["GPU-b"]["pod"] == "dcgm-exporter-a", "nobody is on it, so the exporter's own pod stands there"
    holders = {str(one[-1].subject.device): one[-1].holder for one in watch.samples.values()}
    assert holders == {"GPU-a": "team/train-0", "GPU-b": "", "GPU-c": "team/train-1"}
    watch.until(lambda watch: watch.lost == [])


def test_labels_that_prometheus_was_told_to_honour_are_the_exporters(world: World) -> None:
    exporter = Exporter(
        "gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY, "team/train-0"), a_gpu(1, "GPU-b", BUSY, None)]
    )
    watch = world.begin((exporter, in_pod("a")), honor=True)
    watch.until(lambda watch: len(watch.samples) == 2)
    holders = {str(one[-1].subject.device): one[-1].holder for one in watch.samples.values()}
    assert holders == {"GPU-a": "team/train-0", "GPU-b": ""}


def test_each_sample_is_told_once_with_the_moment_of_its_scrape(world: World) -> None:
    exporter = Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY)])
    watch = world.begin((exporter, {}))
    watch.more("GPU-a", 8)
    (samples,) = watch.samples.values()
    times = [sample.at for sample in samples]
    assert times == sorted(set(times))
    assert max(times) <= time.time()
    exporter.gpus[0].fields["GPU_UTIL"] = 10
    changed = time.time()
    watch.until(lambda watch: watch.value("GPU-a") == 0.1)
    assert all(sample.values[U] == 0.97 for sample in samples if sample.at < changed - SCRAPE)
    assert SCRAPE / 2 < watch.source.shortest < 5 * SCRAPE


def test_pod_labels_that_come_late_and_stay_too_long_do_not_make_two_gpus_of_one(world: World) -> None:
    exporter = Exporter("gpu-a", NEW, [a_gpu(0, "GPU-a", BUSY, None)])
    watch = world.begin((exporter, in_pod("a")))
    seen = []
    for pod in (None, "", "team/train-0", "team/train-1", ""):
        exporter.gpus[0].pod = pod
        wanted = pod or ""
        watch.until(lambda watch, wanted=wanted: _holder(watch, "GPU-a") == wanted)  # type: ignore[misc]  # mypy does not know its default
        watch.more("GPU-a", 2)
        seen.append(_holder(watch, "GPU-a"))
    assert seen == ["", "", "team/train-0", "team/train-1", ""]
    (samples,) = watch.samples.values()
    times = [sample.at for sample in samples]
    assert times == sorted(set(times))
    watch.until(lambda watch: watch.lost == [])


def _holder(watch: Watch, device: str) -> str | None:
    newest = watch.newest(device)
    return None if newest is None else newest.holder


def test_an_upgrade_of_an_exporter_to_the_other_dialect_changes_no_gpu(world: World) -> None:
    exporter = Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY)])
    watch = world.begin((exporter, {}))
    watch.more("GPU-a", 2)
    exporter.dialect = NEW
    exporter.gpus[0].fields["GPU_UTIL"] = 3
    watch.until(lambda watch: watch.value("GPU-a") == 0.03)
    assert [subject.node for subject in watch.samples] == ["gpu-a"]
    watch.until(lambda watch: watch.lost == [])


def test_instances_are_told_apart_and_power_is_the_whole_gpus(world: World) -> None:
    shared = {"POWER_USAGE": 112.0, "XID_ERRORS": 0}
    exporter = Exporter(
        "gpu-a",
        OLD,
        [
            Gpu(0, "GPU-a", {**shared, "GR_ENGINE_ACTIVE": 0.4, "FB_USED": 4384}, "8", "1g.5gb", "t/one"),
            Gpu(0, "GPU-a", {**shared, "GR_ENGINE_ACTIVE": 0.0, "FB_USED": 6}, "9", "1g.5gb", "t/two"),
        ],
    )
    watch = world.begin((exporter, in_pod("a")))
    watch.until(lambda watch: len(watch.samples) == 3)
    assert (watch.value("GPU-a", U, "8"), watch.value("GPU-a", U, "9")) == (0.4, 0.0)
    assert watch.value("GPU-a", Measure.MEMORY, "9") == 6 << 20
    assert watch.value("GPU-a", Measure.POWER) == 112.0
    assert watch.value("GPU-a", Measure.POWER, "8") is None
    assert {one[-1].holder for one in watch.samples.values()} == {"t/one", "t/two", ""}
    for gpu in exporter.gpus:
        gpu.fields["XID_ERRORS"] = 79
    watch.until(lambda watch: bool(watch.faults))
    watch.more("GPU-a", 6)
    assert [(fault.subject.instance, fault.code) for fault in watch.faults] == [("", 79)], "it sticks"


def test_a_gpu_that_vanishes_is_lost_at_once_and_shows_nothing_until_it_is_back(world: World) -> None:
    gpus = [a_gpu(0, "GPU-a", BUSY), a_gpu(1, "GPU-b", BUSY)]
    exporter = Exporter("gpu-a", OLD, list(gpus))
    watch = world.begin((exporter, {}))
    watch.more("GPU-b", 2)
    exporter.gpus = gpus[:1]
    watch.until(lambda watch: watch.lost == ["GPU GPU-b on gpu-a"])
    newest = watch.newest("GPU-b")
    assert newest is not None
    assert watch.last.lost[0].since == newest.at
    count = watch.count("GPU-b")
    watch.more("GPU-a", 4)
    assert watch.count("GPU-b") == count, "neither zeros nor its last values again"
    exporter.gpus = gpus
    watch.more("GPU-b", 1)
    watch.until(lambda watch: watch.lost == [])


def test_a_node_whose_exporter_dies_is_lost_and_the_other_goes_on(world: World) -> None:
    other = Exporter("gpu-b", NEW, [a_gpu(0, "GPU-c", BUSY)])
    ill = Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY)])
    watch = world.begin((ill, {}), (other, {}))
    watch.until(lambda watch: len(watch.samples) == 2)
    ill.broken = True
    place = ill.url.split("/")[2]
    watch.until(lambda watch: watch.lost == [f"node gpu-a ({place})"])
    count = watch.count("GPU-a")
    watch.more("GPU-c", 4)
    assert watch.count("GPU-a") == count
    ill.broken = False
    watch.more("GPU-a", 1)
    watch.until(lambda watch: watch.lost == [])


def test_values_with_old_stamps_keep_them_and_are_not_told_again_and_again(world: World) -> None:
    begun = time.time()
    late = a_gpu(0, "GPU-a", BUSY)
    exporter = Exporter("gpu-a", OLD, [late, a_gpu(1, "GPU-b", BUSY)])
    late.stamp = begun - 0.4
    watch = world.begin((exporter, {}), interval=2)
    watch.more("GPU-a", 1)
    newest = watch.newest("GPU-a")
    assert newest is not None
    assert newest.at == pytest.approx(begun - 0.4, abs=0.002)
    watch.until(lambda watch: watch.lost == ["GPU GPU-a on gpu-a"])
    watch.more("GPU-b", 4)
    assert watch.count("GPU-a") == 1
    late.stamp = time.time()
    watch.more("GPU-a", 1)
    watch.until(lambda watch: watch.lost == [])


def test_a_counter_that_begins_anew_is_no_power(world: World) -> None:
    gpu = a_gpu(0, "GPU-a", {"TOTAL_ENERGY_CONSUMPTION": 9e12, "GPU_TEMP": 40})
    exporter = Exporter("gpu-a", OLD, [gpu])
    watch = world.begin((exporter, {}))
    watch.more("GPU-a", 3)
    gpu.fields["TOTAL_ENERGY_CONSUMPTION"] = 1000.0
    gpu.fields["GPU_TEMP"] = 41
    watch.until(lambda watch: watch.value("GPU-a", Measure.TEMPERATURE) == 41)
    watch.more("GPU-a", 3)
    (samples,) = watch.samples.values()
    told = [sample.values.get(Measure.POWER) for sample in samples]
    assert told[0] is None, "a counter says nothing at the first look"
    assert {power for power in told if power is not None} == {0.0}
    assert told.count(None) == 2, "the first one, and the one after the reset"


def test_machines_without_names_or_with_the_same_one_are_told_apart(world: World) -> None:
    targets = [
        (Exporter(None, OLD, [a_gpu(0, "", {"GPU_UTIL": 10}, None)]), {}),
        (Exporter("localhost", OLD, [a_gpu(0, "", {"GPU_UTIL": 20}, None)]), {}),
        (Exporter("localhost", NEW, [a_gpu(0, "", {"GPU_UTIL": 30}, None)]), {}),
        (Exporter("dcgm-exporter-x", NEW, [a_gpu(0, "", {"GPU_UTIL": 40}, None)]), {"node": "n1"}),
    ]
    watch = world.begin(*targets)
    watch.until(lambda watch: len(watch.samples) == 4)
    watch.until(lambda watch: all(len(samples) >= 3 for samples in watch.samples.values()))
    assert len(watch.samples) == 4
    told = {subject.node: {sample.values[U] for sample in one} for subject, one in watch.samples.items()}
    assert len(told) == 4
    assert told["n1"] == {0.4}  # type: ignore[index]  # a NodeId is a str
    assert sorted(map(sorted, told.values())) == [[0.1], [0.2], [0.3], [0.4]]


def test_a_prometheus_without_gpus_says_so_and_one_that_is_none_too(world: World) -> None:
    watch = world.begin((Exporter("gpu-a", OLD, []), {}))
    watch.look()
    assert [lost.why for lost in watch.last.lost] == ["it has no series of a DCGM exporter"]
    with served(Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY)])) as exporter:
        source = PrometheusSource(exporter.url)
        batch = source.sample(time.time())
        source.close()
    (lost,) = batch.lost
    assert lost.why.startswith("its answer is not one of Prometheus's")


def test_a_prometheus_that_is_gone_is_lost_and_its_samples_go_on_when_it_is_back(world: World) -> None:
    watch = world.begin((Exporter("gpu-a", OLD, [a_gpu(0, "GPU-a", BUSY)]), {}))
    watch.more("GPU-a", 2)
    world.server.stop()
    watch.look()
    assert watch.last.samples == ()
    (lost,) = watch.last.lost
    assert lost.what.startswith(f"Prometheus {world.server.url}")
    world.server.start()
    watch.more("GPU-a", 1)
    watch.until(lambda watch: watch.lost == [])
