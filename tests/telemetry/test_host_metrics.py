"""The whole machine's figures, out of /proc."""

from pathlib import Path

import pytest

from grus.model.identifiers import NodeId
from grus.telemetry import host_metrics
from grus.telemetry.host_metrics import MachineSource
from grus.telemetry.samples import Measure, Subject


def say(proc: Path, *, cpu: str, free: int, sectors: int, received: int) -> None:
    (proc / "net").mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  {cpu}\ncpu0 1 1 1 1\n")
    (proc / "meminfo").write_text(f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: {free} kB\n")
    disks = f" 7 0 loop0 1 0 999 0 1 0 999 0\n 8 0 {{disk}} 1 0 {sectors} 0 1 0 {2 * sectors} 0\n"
    (proc / "diskstats").write_text(disks.format(disk="disk"))
    (proc / "net" / "dev").write_text(
        f"head\nhead\n eth0: {received} 0 0 0 0 0 0 0 {received} 0 0 0 0 0 0 0\n"
    )


def test_rates_are_between_two_looks_and_waiting_is_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_metrics, "_is_disk", lambda name: name == "disk")
    monkeypatch.setattr(host_metrics, "_TICKS", 100)
    source = MachineSource(NodeId("n1"), proc=str(tmp_path))
    say(tmp_path, cpu="100 0 100 5000 900 0 0 50 0 0", free=600, sectors=10, received=0)
    (first,) = source.sample(10).samples
    assert (first.subject, first.values) == (Subject(NodeId("n1")), {Measure.HOST_MEMORY: 400 * 1024})
    say(tmp_path, cpu="300 0 200 5100 990 0 0 90 0 0", free=500, sectors=30, received=400)
    (second,) = source.sample(12).samples
    assert second.values == {
        Measure.HOST_MEMORY: 500 * 1024,
        Measure.CPU: 1.5,
        Measure.DISK_READ: 5120,
        Measure.DISK_WRITE: 10240,
        Measure.NETWORK_IN: 200,
        Measure.NETWORK_OUT: 200,
    }


def test_this_very_machine_uses_some_memory_and_cpu_time() -> None:
    source = MachineSource(NodeId("here"))
    source.sample(0)
    (sample,) = source.sample(1e9).samples
    assert sample.values[Measure.HOST_MEMORY] > 1 << 20
    assert sample.values[Measure.CPU] >= 0


def test_a_proc_that_cannot_be_read_is_told_and_not_zero(tmp_path: Path) -> None:
    source = MachineSource(NodeId("n1"), proc=str(tmp_path))
    batch = source.sample(5)
    assert batch.samples == ()
    assert [lost.since for lost in (*batch.lost, *source.sample(9).lost)] == [5, 5]
