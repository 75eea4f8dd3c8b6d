"""Samples of the driver, against a pretended one: what it says, when it is silent, when it is back."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grus.model.identifiers import NodeId
from grus.telemetry.nvml_samples import NvmlSamples
from grus.telemetry.samples import Batch, Measure
from tests.contracts.engine_contract import until
from tests.telemetry.nvml_driver import FAKE, GIB, a_driver, a_gpu


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return a_driver(tmp_path, monkeypatch)


@pytest.fixture
def source(driver: Callable[..., None]) -> Iterator[NvmlSamples]:
    source = NvmlSamples(NodeId("box"), interval=0.1, patience=10, module=FAKE)
    yield source
    source.close()


def test_a_sample_has_what_the_gpu_measures_and_its_own_moment(
    driver: Callable[..., None], source: NvmlSamples
) -> None:
    driver(a_gpu(0, utilisation=97, memory_time=51, used=3 * GIB, power=289.5, temperature=61), a_gpu(1))
    source.sample(0)  # the child has started
    before = time.monotonic()
    batch = source.sample(1000)
    taken = time.monotonic() - before
    first, second = batch.samples
    assert first.values == {
        Measure.UTILISATION: 0.97,
        Measure.MEMORY_TIME: 0.51,
        Measure.MEMORY: 3 * GIB,
        Measure.POWER: 289.5,
        Measure.TEMPERATURE: 61,
    }
    assert set(second.values) == {Measure.UTILISATION, Measure.MEMORY_TIME, Measure.MEMORY}
    assert 1000 <= first.at <= second.at <= 1000 + taken
    assert (first.subject.node, first.subject.device, batch.lost) == ("box", "GPU-0", ())
    assert source.shortest == 0.1


def test_a_gpu_that_is_lost_or_vanishes_is_told_and_shows_nothing(
    driver: Callable[..., None], source: NvmlSamples
) -> None:
    source.sample(0)
    driver(a_gpu(0, lost=True))
    batch = source.sample(5)
    assert batch.samples == ()
    assert [(lost.what, lost.why) for lost in batch.lost] == [
        ("GPU GPU-0 on box", "GPU is lost"),
        ("GPU GPU-1 on box", "the driver no longer lists it"),
    ]
    assert all(lost.since < 5 for lost in batch.lost)
    driver(a_gpu(0), a_gpu(1))
    batch = source.sample(6)
    assert (len(batch.samples), batch.lost) == (2, ())


def test_a_hanging_driver_is_told_in_time_and_asked_again_later_and_later(
    driver: Callable[..., None], source: NvmlSamples
) -> None:
    source.sample(0)
    source._patience = 0.1
    driver(a_gpu(0), hang=True)
    batch = source.sample(5)
    assert batch.samples == ()
    (lost,) = batch.lost
    assert (lost.what, lost.since) == ("the NVIDIA driver", 0)
    assert source.sample(5.05).lost == batch.lost, "not asked again so soon"
    assert source._probe is None, "the child that hangs is killed"
    driver(a_gpu(0))
    source._patience = 10
    batch = source.sample(6)
    assert ([lost.what for lost in batch.lost], len(batch.samples)) == (["GPU GPU-1 on box"], 1)


def test_an_answer_that_comes_late_from_a_child_that_starts_is_waited_for(source: NvmlSamples) -> None:
    """Loading a driver takes longer than a sample may: the child is kept, and its first word has its time."""
    source._patience = 0.0
    first = source.sample(100)
    assert first.samples == ()
    assert [lost.what for lost in first.lost] == ["the NVIDIA driver"]
    asked = time.monotonic()

    def answered() -> Batch | None:
        batch = source.sample(100 + time.monotonic() - asked)
        return batch if batch.samples else None

    batch = until(answered)
    assert batch.lost == ()
    assert all(100 <= sample.at <= 100 + time.monotonic() - asked for sample in batch.samples)


def test_a_machine_without_a_driver_says_so(driver: Callable[..., None], source: NvmlSamples) -> None:
    driver(broken=True)
    (lost,) = source.sample(3).lost
    assert (lost.what, lost.why, lost.since) == ("the NVIDIA driver", "the probe has ended", 3)
