"""What counts as current: means of the last second, each measure for as long as its source vouches for it."""

import pytest

from grus.controlplane.monitoring.latest import Newest
from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.samples import Measure, Sample, Subject

NODE = Subject(NodeId("n0"))


def told(newest: Newest, at: float, every: float = 1.0, **values: float) -> None:
    newest.take([Sample(NODE, at, {Measure(name): value for name, value in values.items()})], every)


def test_of_one_sample_a_second_the_last_counts() -> None:
    newest = Newest()
    told(newest, 10.0, cpu=1.0)
    told(newest, 11.0, cpu=3.0)
    assert newest.at(11.5)[NODE] == Sample(NODE, 11.0, {Measure.CPU: 3.0})


def test_of_ten_samples_a_second_the_mean_counts() -> None:
    newest = Newest()
    for i in range(20):
        told(newest, 10.0 + i / 10, every=0.1, cpu=float(i >= 15))
    assert newest.at(12.0)[NODE].values[Measure.CPU] == pytest.approx(0.5)


def test_what_is_measured_less_often_does_not_vanish_in_between() -> None:
    newest = Newest()
    told(newest, 10.0, cpu=1.0, network_in=7.0)
    for at in range(11, 20):
        told(newest, float(at), cpu=2.0)
    assert newest.at(19.5)[NODE].values == {Measure.CPU: 2.0, Measure.NETWORK_IN: 7.0}
    assert newest.at(30.0)[NODE].values == {Measure.CPU: 2.0}


def test_what_comes_late_changes_nothing_and_what_is_old_is_let_go() -> None:
    newest = Newest()
    told(newest, 10.0, cpu=1.0)
    told(newest, 9.0, cpu=5.0)
    assert newest.at(10.5)[NODE].values == {Measure.CPU: 1.0}
    newest.tidy(100.0)
    assert newest.at(10.5) == {}


def test_a_source_that_measures_seldom_is_believed_for_longer() -> None:
    newest = Newest()
    told(newest, 10.0, every=30.0, power=200.0)
    assert newest.at(90.0)[NODE].values == {Measure.POWER: 200.0}
    assert newest.at(110.0) == {}


def test_gpus_can_be_asked_for_without_the_rest() -> None:
    newest = Newest()
    gpu = Subject(NodeId("n0"), DeviceId("n0/gpu-0"))
    newest.take([Sample(one, 10.0, {Measure.CPU: 1.0}) for one in (NODE, gpu)], 1.0)
    assert set(newest.at(10.5, gpus_only=True)) == {gpu}
