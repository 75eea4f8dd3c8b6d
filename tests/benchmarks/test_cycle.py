"""The benchmark of decisions measures what it says it does."""

import pytest

from benchmarks.cycle_elastic import Scene, exponent
from grus.scheduler.decisions import Resize


def test_an_exponent_is_the_power_with_which_the_time_grows() -> None:
    sizes = (64, 512, 2048)
    assert exponent(sizes, [size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_in_the_elastic_scene_two_jobs_wait_for_each_gpu_and_gpus_flow() -> None:
    scene = Scene(64)
    assert len(list(scene.snapshot.waiting())) >= 1.8 * 64
    resized = []
    for _ in range(20):
        scene.end(trading=True)
        scene.arrive(trading=True)
        scene.report()
        while actions := scene.decide().actions:
            resized += [action for action in actions if isinstance(action, Resize)]
    assert len(resized) > 5
