"""Every source of samples keeps the promises of its protocol."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.model.identifiers import NodeId
from grus.telemetry.dcgm import DcgmSource
from grus.telemetry.host_metrics import MachineSource
from grus.telemetry.nvml_samples import NvmlSamples
from grus.telemetry.prometheus import PrometheusSource
from tests.contracts.source_contract import Measured, SourceContract
from tests.telemetry.exporter import Exporter, a_gpu, served
from tests.telemetry.nvml_driver import FAKE, a_driver
from tests.telemetry.nvml_driver import a_gpu as a_card

GPU = a_gpu(0, "GPU-a", {"GPU_UTIL": 97})


class TestDcgm(SourceContract):
    @pytest.fixture
    def measured(self) -> Iterator[Measured]:
        exporter = Exporter("box", gpus=[GPU])

        def breaks(broken: bool) -> None:
            exporter.broken = broken

        with served(exporter):
            source = DcgmSource({exporter.url: None}, patience=10)
            yield Measured(source, lambda: breaks(True), lambda: breaks(False))
            source.close()


class Answers(Exporter):
    """A pretended Prometheus: each question is answered with a sample of one GPU, newer each time."""

    asked = 0

    def page(self) -> str:
        self.asked += 1
        labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-a", "Hostname": "box"}
        series = {"metric": labels, "values": [[900 + 30 * self.asked, "97"]]}
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}})


class TestPrometheus(SourceContract):
    @pytest.fixture
    def measured(self) -> Iterator[Measured]:
        server = Answers("box")

        def breaks(broken: bool) -> None:
            server.broken = broken

        with served(server):
            source = PrometheusSource(server.url, interval=60, patience=10)
            yield Measured(source, lambda: breaks(True), lambda: breaks(False))
            source.close()


class TestNvml(SourceContract):
    @pytest.fixture
    def measured(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
        driver = a_driver(tmp_path, monkeypatch)
        source = NvmlSamples(NodeId("box"), module=FAKE, patience=10)
        yield Measured(
            source,
            lambda: driver(a_card(0, lost=True), a_card(1, lost=True)),
            lambda: driver(a_card(0), a_card(1)),
        )
        source.close()


class TestMachine(SourceContract):
    @pytest.fixture
    def measured(self, tmp_path: Path) -> Iterator[Measured]:
        place = tmp_path / "proc"
        place.symlink_to("/proc")
        source = MachineSource(NodeId("box"), proc=str(place))
        yield Measured(source, place.unlink, lambda: place.symlink_to("/proc"))
        source.close()
