"""DCGM exporters: three dialects, absence that is not zero, errors that stick, pages that come late."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.dcgm import DcgmSource
from grus.telemetry.prometheus_exposition import read_labels, rows
from grus.telemetry.samples import Batch, Measure, Sample, Subject
from tests.telemetry.exporter import NEW, OLD, Exporter, Gpu, a_gpu, served

BUSY = {"GPU_UTIL": 97, "MEM_COPY_UTIL": 51, "FB_USED": 1024, "POWER_USAGE": 289.5, "GPU_TEMP": 61}
U = Measure.UTILISATION


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def a_source(stack: ExitStack, *exporters: Exporter, patience: float = 10) -> DcgmSource:
    pages: dict[str, NodeId | None] = {stack.enter_context(served(one)).url: None for one in exporters}
    source = DcgmSource(pages, patience=patience)
    stack.callback(source.close)
    return source


def one(batch: Batch, device: str, instance: str = "") -> Sample:
    (found,) = [
        sample
        for sample in batch.samples
        if (sample.subject.device, sample.subject.instance) == (device, instance)
    ]
    return found


def test_time_of_the_memory_memory_taken_and_activity_are_three_things(stack: ExitStack) -> None:
    gpu = a_gpu(0, "GPU-a", {**BUSY, "SM_ACTIVE": 0.33, "DRAM_ACTIVE": 0.4, "GR_ENGINE_ACTIVE": 0.9})
    batch = a_source(stack, Exporter("box", gpus=[gpu])).sample(1000)
    assert batch.samples == (
        Sample(
            Subject(NodeId("box"), DeviceId("GPU-a")),
            1000,
            {
                Measure.UTILISATION: 0.97,
                Measure.MEMORY_TIME: 0.51,
                Measure.ACTIVE: 0.33,
                Measure.MEMORY: 1 << 30,
                Measure.POWER: 289.5,
                Measure.TEMPERATURE: 61,
            },
        ),
    )
    assert batch.lost == ()


@pytest.mark.parametrize("dialect", [OLD, NEW])
@pytest.mark.parametrize(("pod", "holder"), [(None, ""), ("", ""), ("team/train-0", "team/train-0")])
def test_both_names_of_the_host_and_every_state_of_the_pod_labels_are_read(
    stack: ExitStack, dialect: str, pod: str | None, holder: str
) -> None:
    batch = a_source(stack, Exporter("box", dialect, [a_gpu(0, "GPU-a", BUSY, pod)])).sample(5)
    assert one(batch, "GPU-a").subject.node == "box"
    assert one(batch, "GPU-a").holder == holder


def test_what_is_not_on_the_page_or_blank_is_absent_and_not_zero(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", {"POWER_USAGE": 80, "FB_USED": 9223372036854775794})])
    assert one(a_source(stack, exporter).sample(5), "GPU-a").values == {Measure.POWER: 80}


def test_a_value_that_is_missing_once_is_not_replaced_by_a_cousin(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", {"GPU_UTIL": 90, "GR_ENGINE_ACTIVE": 0.2})])
    source = a_source(stack, exporter)
    assert one(source.sample(0), "GPU-a").values[U] == 0.9
    exporter.gpus[0].fields = {"GR_ENGINE_ACTIVE": 0.3, "POWER_USAGE": 70}
    assert U not in one(source.sample(30), "GPU-a").values
    assert one(source.sample(900), "GPU-a").values[U] == 0.3, "it does not tell the other any more"


def test_instances_have_their_own_use_and_the_whole_gpu_has_the_power(stack: ExitStack) -> None:
    shared = {"POWER_USAGE": 112.0, "GPU_TEMP": 35, "GPU_UTIL": 0}
    exporter = Exporter(
        "box",
        gpus=[
            Gpu(0, "GPU-a", {**shared, "GR_ENGINE_ACTIVE": 0.4, "FB_USED": 4384}, "8", "1g.5gb", "t/one"),
            Gpu(0, "GPU-a", {**shared, "GR_ENGINE_ACTIVE": 0.0, "FB_USED": 6}, "9", "1g.5gb", "t/two"),
        ],
    )
    batch = a_source(stack, exporter).sample(5)
    assert one(batch, "GPU-a", "8").values == {U: 0.4, Measure.MEMORY: 4384 << 20}
    assert one(batch, "GPU-a", "9").values == {U: 0.0, Measure.MEMORY: 6 << 20}
    assert one(batch, "GPU-a", "9").holder == "t/two"
    assert one(batch, "GPU-a").values == {Measure.POWER: 112.0, Measure.TEMPERATURE: 35}
    assert one(batch, "GPU-a").holder == ""


def test_an_error_is_told_once_though_the_code_sticks_and_an_old_one_is_no_news(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", {**BUSY, "XID_ERRORS": 43})])
    source = a_source(stack, exporter)
    told = []
    for step, code in enumerate([43, 43, 79, 79, 0, 79]):
        exporter.gpus[0].fields |= {"XID_ERRORS": code, "POWER_USAGE": 100 + step}
        told += [(fault.code, fault.at) for fault in source.sample(30.0 * step).faults]
    assert told == [(79, 60), (79, 150)]


def test_power_out_of_the_energy_counter_is_absent_where_the_counter_began_anew(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", {})])
    source = a_source(stack, exporter)
    told = []
    for step, joules in enumerate([1000, 4000, 7000, 50, 1550]):
        exporter.gpus[0].fields = {"TOTAL_ENERGY_CONSUMPTION": joules * 1000, "GPU_TEMP": 50}
        told.append(one(source.sample(30.0 * step), "GPU-a").values.get(Measure.POWER))
    assert told == [None, 100, 100, None, 50]


def test_a_page_that_says_nothing_new_gives_no_samples_and_one_that_hangs_is_told(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", {**BUSY, "TOTAL_ENERGY_CONSUMPTION": 5})])
    source = a_source(stack, exporter)
    assert source.sample(0).samples
    assert source.sample(10) == Batch(), "the exporter has not measured again yet"
    assert source.sample(100).samples == (), "energy that does not grow is no measurement"
    batch = source.sample(130)
    assert batch.samples == ()
    assert [(lost.why, lost.since) for lost in batch.lost] == [("it repeats the same values", 0)]
    exporter.gpus[0].fields["TOTAL_ENERGY_CONSUMPTION"] = 6
    batch = source.sample(160)
    assert (len(batch.samples), batch.lost) == (1, ())


def test_a_page_without_counters_that_stays_the_same_is_a_gpu_at_rest(stack: ExitStack) -> None:
    source = a_source(stack, Exporter("box", gpus=[a_gpu(0, "GPU-a", {"GPU_UTIL": 0})]))
    assert [len(source.sample(at).samples) for at in (0, 10, 30, 40, 600)] == [1, 0, 1, 0, 1]


def test_how_often_an_exporter_measures_is_seen_by_how_often_its_page_changes(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", BUSY)])
    source = a_source(stack, exporter)
    assert source.shortest == 1
    for second in range(40):
        exporter.gpus[0].fields["POWER_USAGE"] = 100 + second // 5
        source.sample(float(second))
    assert source.shortest == 5


def test_a_gpu_that_vanishes_is_lost_from_then_until_it_is_back(stack: ExitStack) -> None:
    gpus = [a_gpu(0, "GPU-a", BUSY), a_gpu(1, "GPU-b", BUSY)]
    exporter = Exporter("box", gpus=list(gpus))
    source = a_source(stack, exporter)
    source.sample(0)
    exporter.gpus = gpus[:1]
    batch = source.sample(30)
    assert [sample.subject.device for sample in batch.samples] == ["GPU-a"]
    assert [(lost.what, lost.since) for lost in batch.lost] == [("GPU GPU-b on box", 30)]
    assert [lost.since for lost in source.sample(60).lost] == [30]
    exporter.gpus = gpus
    assert source.sample(90).lost == ()


def test_an_exporter_that_fails_is_lost_and_the_other_goes_on(stack: ExitStack) -> None:
    well, ill = Exporter("well", gpus=[a_gpu(0, "GPU-a", BUSY)]), Exporter("ill", broken=True)
    source = a_source(stack, well, ill)
    batch = source.sample(7)
    assert [sample.subject.node for sample in batch.samples] == ["well"]
    (lost,) = batch.lost
    assert lost.what == f"exporter {ill.url}"
    assert lost.why == "HTTP 500"
    ill.gpus, ill.broken = [a_gpu(0, "GPU-b", BUSY)], False
    assert source.sample(40).lost == ()


def test_a_late_page_is_lost_at_first_and_then_has_the_moment_it_is_from(stack: ExitStack) -> None:
    exporter = Exporter("box", gpus=[a_gpu(0, "GPU-a", BUSY)], released=threading.Event())
    source = a_source(stack, exporter, patience=10)
    source._patience = 0.05
    batch = source.sample(100)
    assert batch.samples == ()
    assert [lost.why for lost in batch.lost] == ["no answer in 0.05 s"]
    assert exporter.released is not None
    exporter.released.set()
    source._patience = 10
    batch = source.sample(130)
    assert [(sample.at, sample.values[U]) for sample in batch.samples] == [(100, 0.97)]
    assert batch.lost == ()


def test_machines_with_one_name_or_none_are_not_mixed_up(stack: ExitStack) -> None:
    """GPUs that are known by their number only are told apart by where they were read."""
    exporters = [
        Exporter("localhost", gpus=[a_gpu(0, "", {"GPU_UTIL": 10})]),
        Exporter("localhost", gpus=[a_gpu(0, "", {"GPU_UTIL": 20})]),
        Exporter(None, gpus=[a_gpu(0, "", {"GPU_UTIL": 30})]),
    ]
    batch = a_source(stack, *exporters).sample(5)
    assert len({sample.subject for sample in batch.samples}) == 3
    assert len({sample.subject.node for sample in batch.samples}) == 3
    assert sorted(sample.values[U] for sample in batch.samples) == [0.1, 0.2, 0.3]


def test_a_node_that_is_told_goes_before_the_name_of_the_exporters_pod(stack: ExitStack) -> None:
    exporter = stack.enter_context(served(Exporter("exporter-x7", gpus=[a_gpu(0, "GPU-a", BUSY)])))
    source = DcgmSource({exporter.url: NodeId("n1")})
    stack.callback(source.close)
    assert one(source.sample(5), "GPU-a").subject.node == "n1"


def test_an_exporter_that_was_given_a_new_name_has_lost_no_gpu(stack: ExitStack) -> None:
    exporter = Exporter("exporter-x7", gpus=[a_gpu(0, "GPU-a", BUSY)])
    source = a_source(stack, exporter)
    source.sample(0)
    exporter.host = "exporter-k2"
    batch = source.sample(30)
    assert (one(batch, "GPU-a").subject.node, batch.lost) == ("exporter-k2", ())


def test_a_line_that_is_no_metric_hides_nothing_and_labels_may_hold_anything() -> None:
    text = (
        'Some words\n\nm{a="x\\"y\\\\z\\n",b="",} 3 1500\nm{a=broken} 4\nm NaN\nm{a="}"} +Inf\nm 5\nother 6\n'
    )
    assert list(rows(text, {"m"})) == [
        ("m", {"a": 'x"y\\z\n'}, 3.0, 1.5),
        ("m", {}, 5.0, None),
    ]
    assert read_labels('a="b" c="d"') is None


CAPTURES = {
    "design_samples__2.9_fraction_metrics_1_workload.ini": 2,
    "design_samples__2.9_mig_metrics_4_Active_Workloads.ini": 5,
    "design_samples__2.9_mig_metrics_Active_1g.5gb.ini": 2,
    "design_samples__2.9_mig_metrics_Active_2_1g.5gb___2g.10gb.ini": 4,
    "design_samples__2.9_mig_metrics_Empty_mig_disabled.ini": 1,
    "design_samples__2.9_mig_metrics_Emtpy_MIG_enabled.ini": 1,
    "design_samples__2.9_mig_metrics_Idle_1g.5gb_allocated.ini": 2,
}
"""How many GPUs and instances each real page tells of."""


@pytest.mark.skipif("GRUS_DATA" not in os.environ, reason="needs GRUS_DATA: real pages of exporters")
def test_real_pages_are_read_in_all_their_dialects(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = Exporter("")
    source = a_source(stack, exporter)
    found: dict[str, dict[str, Sample]] = {}
    counts = {}
    for step, name in enumerate(CAPTURES):
        text = (Path(os.environ["GRUS_DATA"]) / "dcgm" / name).read_text()
        monkeypatch.setattr(exporter, "page", lambda text=text: text)
        samples = source.sample(30.0 * step).samples
        counts[name] = len(samples)
        found[name] = {sample.subject.instance: sample for sample in samples}
    assert counts == CAPTURES
    active = found["design_samples__2.9_mig_metrics_4_Active_Workloads.ini"]
    assert active["8"].values == {U: 0.408493, Measure.MEMORY_TIME: 0.250816, Measure.MEMORY: 4384 << 20}
    assert active[""].values[Measure.TEMPERATURE] == 35
