"""The Pollux replay gives the published times, so that what it says about other policies counts."""

import pytest

from benchmarks.pollux import differences
from benchmarks.pollux_traces import WORKLOADS, data_folder, read_applications
from grus.simulator.workload.pollux_applications import Application, Placement, canonical, dense, rigid_batch

DATA = data_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="set GRUS_DATA to the folder that holds pollux/")


@pytest.fixture(scope="module")
def apps() -> dict[str, Application]:
    assert DATA is not None
    return read_applications(DATA)


@needs_data
@pytest.mark.parametrize(
    ("app", "placement", "local", "step", "sync"),
    [
        ("cifar10", (4,), 256, 0.203065021, 0.017338240),
        ("cifar10", (2, 1, 4), 100, 0.157192348, 0.074270396),
        ("bert", (4, 2), 9, 2.378100013, 1.686977786),
        ("imagenet", (4,) * 5, 100, 0.608716859, 0.078769858),
        ("imagenet", (1,) * 16, 57, 0.619078493, 0.288783887),
        ("yolov3", (4,) * 6, 7, 1.314129472, 0.857236984),
    ],
)
def test_step_times_are_the_measured_ones(
    apps: dict[str, Application], app: str, placement: Placement, local: int, step: float, sync: float
) -> None:
    assert apps[app].step_time(placement, local) == pytest.approx((step, sync), abs=1e-9)


@needs_data
@pytest.mark.parametrize(
    ("app", "batch", "epoch", "expected"),
    [("cifar10", 1000, 10, 5.814114548), ("imagenet", 5000, 30, 22.951287535)],
)
def test_a_larger_batch_gains_what_the_gradients_say(
    apps: dict[str, Application], app: str, batch: int, epoch: int, expected: float
) -> None:
    assert apps[app].gain(batch, epoch) == pytest.approx(expected, abs=1e-9)


@needs_data
def test_applications_are_those_of_the_paper(apps: dict[str, Application]) -> None:
    """First and largest batch, local batches, epochs and work of all six."""
    facts = {
        app.name: (app.first_batch, app.largest_batch, app.smallest_local, app.largest_local, app.epochs)
        for app in apps.values()
    }
    assert facts == {
        "cifar10": (128, 4096, 32, 1024, 100),
        "ncf": (256, 32768, 32, 32768, 10),
        "bert": (12, 384, 4, 12, 2),
        "deepspeech2": (20, 640, 10, 80, 80),
        "yolov3": (8, 512, 4, 8, 50),
        "imagenet": (200, 12800, 20, 200, 90),
    }
    assert apps["imagenet"].work == pytest.approx(576525.6, abs=0.05)


@needs_data
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("policy", ["tiresias", "optimus"])
def test_every_published_time_comes_out_exactly(
    apps: dict[str, Application], policy: str, workload: int
) -> None:
    assert DATA is not None
    assert differences(DATA, apps, policy, workload) == 0


@needs_data
def test_outside_what_was_measured_is_an_error(apps: dict[str, Application]) -> None:
    """No extrapolation: neither a local batch nor a total batch that was never run."""
    with pytest.raises(ValueError, match="local batch 2000"):
        apps["cifar10"].step_time((1,), 2000)
    with pytest.raises(ValueError, match="batch 64 was never"):
        apps["cifar10"].gradients(64, 0)


@needs_data
def test_one_gpu_accumulates_a_batch_above_the_first(apps: dict[str, Application]) -> None:
    """Gradient noise cannot be seen in a single micro-batch."""
    assert rigid_batch(apps["cifar10"], 128, 1) == (128, 0)
    assert rigid_batch(apps["cifar10"], 256, 1) == (128, 1)
    assert rigid_batch(apps["yolov3"], 512, 16) == (8, 3)


def test_placements_are_named_by_their_smallest_rotation() -> None:
    assert canonical((4, 0, 2, 4)) == (2, 4, 4)
    assert dense(10) == (4, 4, 2)
