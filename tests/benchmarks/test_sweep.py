"""The sides of the benchmark are counted alike, and its tasks are what they claim to be."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from optuna.pruners import NopPruner

from benchmarks.sweep_pool import BOOT, GrusSide, OptunaSide, by_chance
from benchmarks.sweep_tasks import TASKS, Task, hartmann
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep, Value


def flat(params: Mapping[str, Value], chance: int) -> Iterator[float]:
    """Whatever the parameters are, the target is reached with the fifth epoch."""
    del params, chance
    yield from (5.0, 4.0, 3.0, 2.0, 1.0, 0.0)


FLAT = Task("flat", (Axis(name="x", low=0.0, high=1.0),), 6, flat, reference=1)


def a_search(task: Task, target: float, rule: Rule = Rule.AUTO) -> Sweep:
    stopping = Stopping(rule=rule, most=float(task.epochs))
    return Sweep(axes=task.axes, metric="loss", stopping=stopping, budget=Budget(target=target))


def test_all_sides_are_charged_the_same_for_the_same_work() -> None:
    ours = GrusSide(FLAT, a_search(FLAT, 1.0, Rule.NONE), 2, 0).run()
    theirs = OptunaSide(FLAT, NopPruner(), 2, 0).run(1.0)
    chance = by_chance(np.array([list(flat({}, 0))] * 4), 1.0, 2, 0)
    assert [one.gpu_time for one in (ours, theirs, chance)] == [2 * (5 + BOOT)] * 3


def test_random_runs_one_after_another_until_one_is_good_enough() -> None:
    curves = np.array([[9.0, 9.0]] * 5 + [[9.0, 1.0]])
    found = [by_chance(curves, 1.0, 1, seed).gpu_time for seed in range(30)]
    assert min(found) == 2 + BOOT
    assert max(found) == 6 * (2 + BOOT)


def test_grus_reaches_the_target_with_a_full_pool() -> None:
    task = TASKS["curves"]()
    found = GrusSide(task, a_search(task, 0.3), 4, 1).run()
    assert found.reached
    assert found.utilisation == pytest.approx(1.0)


def test_the_function_ends_at_its_published_optimum() -> None:
    """0.114614, 0.555649, 0.852547 gives -3.86278 (Surjanovic and Bingham, Virtual Library of Simulation
    Experiments)."""
    best = dict(zip(("x0", "x1", "x2"), (0.114614, 0.555649, 0.852547), strict=True))
    values = list(hartmann(3, 2.5, 2.0, "h").run(best, 0))
    assert len(values) == 100
    assert values[-1] == pytest.approx(-3.86278, abs=1e-4)
    assert values[0] > values[-1]


def test_a_run_depends_on_its_parameters_and_chance_alone() -> None:
    task = TASKS["network"]()
    params = {"lr": 0.3, "momentum": 0.9, "width": 16, "scale": 1.0, "decay": 1e-5}
    first, again = task.run(params, 1), task.run(params, 1)
    values = [next(first) for _ in range(6)]
    assert values == [next(again) for _ in range(6)]
    assert values[-1] < values[0]
