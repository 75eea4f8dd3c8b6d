"""The pool in words."""

from dataclasses import replace

import numpy as np
import pytest

from grus.controlplane.monitoring.series_query import Whose
from grus.controlplane.monitoring.trend_forecast import Prospect, Reach
from grus.dashboard.live_state.gpu_tiles import GpuMeasurement, Holder, Sums, Tile
from grus.dashboard.live_state.pool_now import Demand
from grus.dashboard.views.cluster_tiles import (
    Viewer,
    density,
    outlook,
    slice_view,
    sums_view,
    tile_view,
    use_view,
)
from grus.model.identifiers import DeviceId, JobId, QueueName, UserName
from grus.model.jobs import Phase
from grus.model.nodes import Device, Health
from grus.model.resources import GPU
from grus.patterns.demand_forecast import Forecast, Nothing
from grus.telemetry.samples import Measure

ADA = Viewer(name=UserName("ada"), sees=lambda owner, queue: queue == "vision")
HOLDER = Holder(JobId("j-1"), "resnet", UserName("ada"), QueueName("vision"), GPU, Phase.RUNNING, False)
TILE = Tile(place=0, node=0, device=Device(DeviceId("n1-0"), "A100", 40_000_000_000))


def test_a_whole_gpu_has_a_slice_as_wide_as_its_tile() -> None:
    shown = slice_view(HOLDER, ADA)
    assert (shown.href, shown.name, shown.by, shown.part, shown.state) == (
        "/jobs/j-1",
        "resnet",
        "ada",
        "",
        "",
    )
    assert "w20" in shown.css.split()


def test_a_part_of_a_gpu_is_as_wide_as_it_is_large() -> None:
    shown = slice_view(HOLDER._replace(share=GPU // 4), ADA)
    assert "w5" in shown.css.split()
    assert shown.part == "0.25 GPU"


@pytest.mark.parametrize(
    ("holder", "state"),
    [
        (HOLDER._replace(phase=Phase.STARTING), "starting"),
        (HOLDER._replace(phase=Phase.PAUSING), "pausing"),
        (HOLDER._replace(leaving=True), "leaving"),
    ],
)
def test_a_job_that_does_not_simply_run_says_what_it_does(holder: Holder, state: str) -> None:
    assert slice_view(holder, ADA).state == state


def test_nothing_of_a_job_that_may_not_be_seen_is_told() -> None:
    shown = slice_view(HOLDER._replace(queue=QueueName("speech"), name="secret"), ADA)
    assert (shown.href, shown.name, shown.by) == ("", "held", "")
    assert "j-1" not in str(shown)


def test_a_free_gpu_is_free_and_a_broken_one_is_not() -> None:
    assert tile_view(TILE, ADA).css == "gpu free"
    broken = replace(TILE, device=replace(TILE.device, health=Health.QUARANTINED))
    assert (tile_view(broken, ADA).css, tile_view(broken, ADA).trouble) == ("gpu out trouble", "quarantined")


@pytest.mark.parametrize(
    ("tile", "words"),
    [
        (
            replace(TILE, device=replace(TILE.device, outside="pid 7 python")),
            "Grus: pid 7 python",
        ),
        (replace(TILE, device=replace(TILE.device, health=Health.DIRTY)), "not clean"),
        (replace(TILE, fault=79), "error 79"),
        (replace(TILE, kind="training", hung=True), "no progress"),
    ],
)
def test_trouble_is_told_in_words_beside_its_sign(tile: Tile, words: str) -> None:
    shown = tile_view(tile, ADA)
    assert words in shown.trouble
    assert shown.sign


def test_what_is_not_measured_is_not_told_as_zero() -> None:
    nothing = use_view(0, GpuMeasurement(), TILE.device.memory)
    assert (nothing.busy, nothing.memory) == ("", "")
    some = use_view(0, GpuMeasurement(87, 31_000_000_000, (("1", 40),)), TILE.device.memory)
    assert (some.busy, some.memory, some.instances) == ("87%", "31/40 GB", "instance 1: 40%")


def test_sums_are_written_as_people_write_them() -> None:
    sums = Sums(nodes=125, gpus=1000 * GPU, usable=989 * GPU, held=972_750_000, busy=51.4, jobs=1)
    shown = sums_view(sums, Demand(658, 1_853_250_000))
    assert (shown.gpus, shown.usable, shown.held, shown.free) == (
        "1,000",
        "989 usable, 125 nodes",
        "972.8",
        "16.2 free",
    )
    assert (shown.jobs, shown.busy, shown.wanted) == ("by 1 job", "51%", "1,853 GPUs wanted in all")


def test_tiles_are_smaller_in_larger_pools() -> None:
    assert [density(gpus) for gpus in (8, 100, 1000)] == ["roomy", "dense", "tiny"]


def prospect(first: float, last: float) -> Prospect:
    median = np.linspace(first, last, 12)
    found = Forecast(0.0, 300.0, median, median - 1, median + 2, None, "")
    return Prospect(Whose.POOL, "", Measure.DEMAND, Reach.HOUR, found)


@pytest.mark.parametrize(
    ("first", "last", "usable", "words"),
    [
        (
            4,
            9,
            6,
            "rises to about 9 GPUs within the hour (90%: 8 to 11); at its peak 3 GPUs will",
        ),
        (9, 4, 12, "falls to about 4 GPUs within the hour (90%: 3 to 6); 3 GPUs will be free"),
        (8, 8, 8, "stays at about 8 GPUs within the hour (90%: 7 to 10)."),
    ],
)
def test_the_next_hour_is_told_in_words(first: float, last: float, usable: int, words: str) -> None:
    assert words in outlook(prospect(first, last), usable)


def test_without_a_forecast_it_is_told_why() -> None:
    nothing = replace(prospect(1, 1), found=Nothing("3 h of measurements are needed"))
    assert outlook(nothing, 8) == "No forecast yet: 3 h of measurements are needed"
