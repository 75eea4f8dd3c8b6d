"""Real trainings, profiled: torch and TensorFlow, a small and a larger data set, one worker and two.

    python -m benchmarks.profiling [--epochs N] [--small N] [--larger N] [--no-tensorflow]

A real server on a virtual pool runs the same program again and again: on the small data set, on it again
(what was expected of that run is held against what it took), with two workers, and on the larger data set,
which the server should call retraining. TensorFlow is installed once into an environment of its own, in the
user's cache; where that fails the figures are torch's alone.

Figures come from `GET /v1/jobs/ID/profile` only, as people see them. A pretended GPU is as busy as the
processes bound to it keep a core; its memory is theirs. `speedup` is what two workers do in a second against
one, `use_one` and `use_two` how busy their GPUs were. `recognised` is the share of runs whose kind was right.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import grus
from benchmarks import profiling_jobs
from benchmarks.environments import python_with
from benchmarks.grus_server import GrusServer
from benchmarks.machine import facts, wait_for, wait_until_quiet

TENSORFLOW = "tensorflow-cpu==2.21.0"
CLASSES, SIDE = 10, 28
PATIENCE = 1800.0
SMALL, AGAIN, TWO, LARGER = "small", "small again", "two workers", "larger"
CASES = {"torch": (SMALL, AGAIN, TWO, LARGER), "tensorflow": (SMALL, AGAIN, LARGER)}


@dataclass(frozen=True, slots=True)
class Program:
    """A training, and the Python that it runs with."""

    name: str
    script: Path
    python: str
    folder: Path

    def place(self) -> None:
        self.folder.mkdir()
        shutil.copyfile(self.script, self.folder / "train.py")

    def job(self, epochs: int, workers: int = 1) -> dict[str, object]:
        return {
            "name": self.name,
            "run": [self.python, "train.py", str(epochs)],
            "workdir": str(self.folder),
            "data": str(self.folder / "data"),
            "launch": "per-gpu",
            "resources": {"gpu": workers},
            # The scripts need no more of Grus than `grus.report`; TensorFlow says a lot on its way.
            "env": {"PYTHONPATH": str(Path(grus.__file__).parent.parent), "TF_CPP_MIN_LOG_LEVEL": "3",
                    "OMP_NUM_THREADS": "1"},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profiled:
    """What the server says of one run, and what it had expected of it."""

    fingerprint: str
    run: dict[str, object]
    expected: dict[str, object] | None
    throughput: float | None
    use: float | None

    def number(self, name: str) -> float:
        value = self.run[name]
        return float(value) if isinstance(value, int | float) else 0.0


def images(folder: Path, count: int, seed: int) -> None:
    """Images of ten patterns under noise: something that can be learned, and costs nothing to make."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(0).normal(size=(CLASSES, 1, SIDE, SIDE))
    labels = rng.integers(0, CLASSES, count)
    made = 0.5 * patterns[labels] + rng.normal(size=(count, 1, SIDE, SIDE))
    folder.mkdir(exist_ok=True)
    np.save(folder / "images.npy", made.astype(np.float32))
    np.save(folder / "labels.npy", labels)


def torch_program(folder: Path) -> Program:
    script = Path(profiling_jobs.__file__).parent / "torch_job.py"
    return Program("torch", script, sys.executable, folder / "torch")


def tensorflow_program(folder: Path) -> Program | None:
    """None, with a word about it, where TensorFlow cannot be installed."""
    try:
        python = python_with(TENSORFLOW)
    except RuntimeError as error:
        print(f"TensorFlow is left out: {error}", flush=True)
        return None
    script = Path(profiling_jobs.__file__).parent / "tensorflow_job.py"
    return Program("tensorflow", script, str(python), folder / "tensorflow")


def profiled(server: GrusServer, job: dict[str, object], gpus: int = 1) -> Profiled:
    """Run it to its end, and ask what is known of it."""
    id_ = server.submit(job)

    def ask(path: str) -> dict[str, object]:
        status, answer = server.connection().ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {answer[:300]!r}")
        found: dict[str, object] = json.loads(answer)
        return found

    wait_for(lambda: ask(f"/v1/jobs/{id_}")["ended_at"] is not None, PATIENCE, f"{job['name']} to end", 0.2)
    if (phase := ask(f"/v1/jobs/{id_}")["phase"]) != "succeeded":
        _, log = server.connection().ask("GET", f"/v1/jobs/{id_}/log?offset=-2000")
        raise RuntimeError(f"{job['name']} {phase}: {log.decode(errors='replace')}")
    found: dict[str, object] = {}

    def settled() -> bool:
        found.update(ask(f"/v1/jobs/{id_}/profile"))
        return _run(found, id_) is not None and _run(found, id_)["phase"] == "succeeded"  # type: ignore[index]  # it is there

    wait_for(settled, 60, f"the profile of {job['name']}", 0.2)
    return _profiled(found, id_, gpus)


def _run(found: dict[str, object], id_: str) -> dict[str, object] | None:
    profile = found.get("profile")
    runs = profile["last"] if isinstance(profile, dict) else []
    return next((run for run in runs if run["job"] == id_), None)


def _profiled(found: dict[str, object], id_: str, gpus: int) -> Profiled:
    profile, run, expected = found["profile"], _run(found, id_), found["expected"]
    assert isinstance(profile, dict)
    assert run is not None
    speeds = [one["throughput"] for one in profile["speeds"] if one["gpus"] == gpus]
    uses = [one["mean_utilisation"] for one in profile["uses"] if one["gpus"] == gpus]
    return Profiled(
        fingerprint=str(found["fingerprint"]),
        run=run,
        expected=expected if isinstance(expected, dict) else None,
        throughput=max(speeds, default=None),
        use=next(iter(uses), None),
    )


def profile(
    server: GrusServer, program: Program, cases: Sequence[str], *, epochs: int, small: int, larger: int
) -> dict[str, Profiled]:
    """Runs of one program, one after the other; the larger data take the place of the small ones."""
    program.place()
    images(program.folder / "data", small, seed=1)
    found = {}
    for case in cases:
        if case == LARGER:
            images(program.folder / "data", larger, seed=2)
        workers = 2 if case == TWO else 1
        found[case] = profiled(server, program.job(epochs, workers), workers)
        print(f"{program.name}, {case}: {json.dumps(found[case].run)}", flush=True)
    return found


def figures(found: dict[str, dict[str, Profiled]]) -> dict[str, object]:
    cases = {f"{program}, {case}": one for program, runs in found.items() for case, one in runs.items()}
    wanted = {name: "retraining" if name.endswith(LARGER) else "training" for name in cases}
    kinds = {name: str(one.run["kind"]) for name, one in cases.items()}
    again = [runs[AGAIN] for runs in found.values()]
    one, two = found["torch"][AGAIN], found["torch"].get(TWO)
    figures: dict[str, object] = {
        "fingerprints": len({one.fingerprint for one in cases.values()}),
        "recognised": sum(kinds[name] == wanted[name] for name in cases) / len(cases),
        "duration_error": max(_error(run, "duration", "seconds") for run in again),
        "memory_error": max(_error(run, "memory", "peak_memory") for run in again),
        "duration_s": {name: round(one.number("seconds"), 1) for name, one in cases.items()},
        "peak_memory_mb": {name: round(one.number("peak_memory") / 1e6, 1) for name, one in cases.items()},
        "cores_used": {name: round(one.number("cpu"), 3) for name, one in cases.items()},
        "periods": {name: one.run["period"] for name, one in cases.items()},
        "kinds": kinds,
    }
    if two is not None and one.throughput and two.throughput and one.use and two.use:
        figures["speedup"] = round(two.throughput / one.throughput, 3)
        figures["use_one"], figures["use_two"] = round(one.use, 3), round(two.use, 3)
    return figures


def _error(run: Profiled, expected: str, measured: str) -> float:
    """How far off what was expected was, as a part of what was measured."""
    told = None if run.expected is None else run.expected[expected]
    if not isinstance(told, int | float) or not run.number(measured):
        return float("nan")
    return round(abs(told / run.number(measured) - 1), 4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--small", type=int, default=8_000, help="images")
    parser.add_argument("--larger", type=int, default=24_000, help="images")
    parser.add_argument("--no-tensorflow", action="store_true")
    given = parser.parse_args()
    busy = wait_until_quiet()
    folder = Path(tempfile.mkdtemp(prefix="grus-profiling-"))
    try:
        programs = [torch_program(folder)]
        other = None if given.no_tensorflow else tensorflow_program(folder)
        with GrusServer("1x2x16GB") as server:
            found = {
                program.name: profile(
                    server,
                    program,
                    CASES[program.name],
                    epochs=given.epochs,
                    small=given.small,
                    larger=given.larger,
                )
                for program in (*programs, *([other] if other is not None else []))
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({**figures(found), "others_busy": round(busy, 3), **facts()}))


if __name__ == "__main__":
    main()
