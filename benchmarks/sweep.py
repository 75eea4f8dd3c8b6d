"""What a search takes until it finds parameters as good as the best of a hundred by chance.

    python -m benchmarks.sweep [--seeds N] [--gpus N] [--tasks NAME …]

Three search on the same pool of equal GPUs in virtual time (`sweep_pool`): Grus, by the very function that
its server calls, as `type: sweep` is without further words (TPE, rule auto); Optuna 5 with its own
SuccessiveHalvingPruner and TPESampler; and random search without early stop. Optuna's pruner is given twice,
as it is by default and, for values that are noise at first, with `min_resource` a ninth of a whole training
and `reduction_factor` 3; of the two the one that needed less in the median of three tries, with other seeds,
is the rival of a task.

The tasks (`sweep_tasks`): `hartmann3` and `hartmann3_good`, multi-fidelity functions of published form;
`curves`, made-up learning curves that cross; `network`, a real training of a small network in NumPy.
The target is the best hundredth of runs by chance to their end. Counted is GPU-time that was held, starts
included, until any trial first reported it; of each task the median over the seeds.
`gpu_hours_ratio` is random's ÷ Grus's, `asha_ratio` is Grus's ÷ Optuna's, both as the geometric mean over the
tasks; `time_ratio` is random's time ÷ Grus's. `utilisation` is the part of the pool that was held, in the
worst run.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence

import numpy as np
from optuna.pruners import BasePruner, SuccessiveHalvingPruner

from benchmarks.machine import facts
from benchmarks.sweep_pool import GrusSide, OptunaSide, Outcome, by_chance
from benchmarks.sweep_tasks import TASKS, Floats, Task
from grus.model.sweep_search import Budget, Stopping, Sweep
from grus.tuning import random_grid_sampling

REFERENCE_SEED = 1_000_003
BEST_PART = 0.01
TRIED = (901, 902, 903)
"""Seeds on which the rival's setting is chosen."""
SHORT = 200.0
"""A try that takes longer is not the better one."""


def reference(task: Task) -> Floats:
    """Curves of whole runs by chance."""
    sweep = Sweep(axes=task.axes, metric="loss", seed=REFERENCE_SEED)
    runs = (
        task.start(random_grid_sampling.random(sweep, (), number), number) for number in range(task.reference)
    )
    return np.array([list(run) for run in runs])


def measure(task: Task, seeds: int, gpus: int) -> dict[str, float]:
    curves = reference(task)
    target = float(np.nanquantile(curves[:, -1], BEST_PART))
    say(f"{task.name}: target {target:.4g}")
    stopping = Stopping(most=float(task.epochs))
    pruners: dict[str, BasePruner] = {
        "default": SuccessiveHalvingPruner(),
        "from a ninth on": SuccessiveHalvingPruner(min_resource=task.epochs // 9, reduction_factor=3),
    }
    tried = {
        name: [OptunaSide(task, pruner, gpus, seed).run(target, SHORT) for seed in TRIED]
        for name, pruner in pruners.items()
    }
    best = min(tried, key=lambda name: middle(tried[name]))
    say(f"  Optuna by its settings: { {name: middle(found) for name, found in tried.items()} }")
    chance, grus, optuna = list[Outcome](), list[Outcome](), list[Outcome]()
    for seed in range(seeds):
        chance.append(by_chance(curves, target, gpus, seed))
        sweep = Sweep(
            axes=task.axes, metric="loss", seed=seed, stopping=stopping, budget=Budget(target=target)
        )
        grus.append(GrusSide(task, sweep, gpus, seed).run())
        optuna.append(OptunaSide(task, pruners[best], gpus, seed).run(target))
        sides = (chance[seed], grus[seed], optuna[seed])
        say(f"  seed {seed}: " + ", ".join(f"{one.gpu_time:.0f}" for one in sides))
    say(
        f"  medians: random {middle(chance):.0f}, Grus {middle(grus):.0f}, "
        f"Optuna {middle(optuna):.0f} ({best})"
    )
    return {
        "random": middle(chance),
        "optuna": middle(optuna),
        "grus": middle(grus),
        "gpu_hours_ratio": round(middle(chance) / middle(grus), 3),
        "asha_ratio": round(middle(grus) / middle(optuna), 3),
        "time_ratio": round(times(chance) / times(grus), 3),
        "utilisation": round(min(one.utilisation for one in grus), 4),
        "grus_trials": statistics.median(one.trials for one in grus),
        "grus_missed": sum(not one.reached for one in grus),
        "optuna_missed": sum(not one.reached for one in optuna),
    }


def middle(found: Sequence[Outcome]) -> float:
    return round(statistics.median(one.gpu_time for one in found), 1)


def times(found: Sequence[Outcome]) -> float:
    return statistics.median(one.time for one in found)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    given = parser.parse_args()
    found = {name: measure(TASKS[name](), given.seeds, given.gpus) for name in given.tasks}
    together = {
        key: round(statistics.geometric_mean(one[key] for one in found.values()), 3)
        for key in ("gpu_hours_ratio", "asha_ratio", "time_ratio")
    }
    worst = {"utilisation": min(one["utilisation"] for one in found.values())}
    print(json.dumps({**together, **worst, "gpus": given.gpus, "seeds": given.seeds, **found} | facts()))


if __name__ == "__main__":
    main()
