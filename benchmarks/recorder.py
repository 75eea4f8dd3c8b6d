"""The recorder under load: an hour of 1 Hz samples of 4 series for 1,000 GPUs, fed as fast as it goes.

Its clock is passed in and runs with the samples; CPU time is the process's own, so that a busy machine does
not count. Half of the GPUs train with a rhythm, the others idle, serve or drift; utilisation comes in whole
per cent, memory in MiB, power in tenths of a watt, as drivers tell them.

    python -m benchmarks.recorder
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine
from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import Recorder

START = 1_790_000_000.0
PER_NODE = 8
AIM_MB, AIM_SHARE = 500.0, 0.1


def use(gpus: int, seconds: int, rng: np.random.Generator) -> dict[Measure, NDArray[np.float64]]:
    """What each GPU shows at each second, [seconds, gpus]."""
    at = np.arange(seconds)[:, None]
    period, phase = rng.uniform(5, 600, gpus), rng.uniform(0, 600, gpus)
    kind = rng.integers(0, 4, gpus)
    noise = rng.normal(0, 0.04, (seconds, gpus))
    epochs = 0.9 - 0.6 * (((at + phase) % period) / period > 0.85) + noise
    bursts = (rng.random((seconds, gpus)) < 0.2) * rng.uniform(0.1, 0.9, (seconds, gpus))
    drift = 0.5 + np.cumsum(rng.normal(0, 0.01, (seconds, gpus)), axis=0)
    busy = np.select([kind <= 1, kind == 2], [epochs, bursts], drift) * (rng.random(gpus) > 0.1)
    busy = np.round(np.clip(busy, 0.0, 1.0), 2).astype(np.float64)
    taken = np.round(busy.max(axis=0) * 40_000 + 64 * rng.integers(0, 3, (seconds, gpus))) * 2**20
    power = np.round(60 + 300 * busy + rng.normal(0, 4, (seconds, gpus)), 1)
    return {
        Measure.UTILISATION: busy,
        Measure.MEMORY_TIME: np.round(np.clip(0.6 * busy + noise, 0, 1), 2),
        Measure.MEMORY: taken,
        Measure.POWER: power,
    }


class Clock:
    """Runs with the samples."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def run(gpus: int, seconds: int, folder: Path) -> dict[str, object]:
    figures = use(gpus, seconds, np.random.default_rng(6))
    subjects = [Subject(NodeId(f"n{i // PER_NODE}"), DeviceId(f"GPU-{i:08d}")) for i in range(gpus)]
    clock, path = Clock(), folder / "telemetry.db"
    recorder = Recorder(path, clock=clock)
    spent, worst = 0.0, 0.0
    for second in range(seconds):
        clock.now = START + second + 0.5
        rows = {measure: values[second].tolist() for measure, values in figures.items()}
        samples = [
            Sample(subject, clock.now, {measure: row[i] for measure, row in rows.items()})
            for i, subject in enumerate(subjects)
        ]
        began = time.process_time()
        recorder.add(samples)
        took = time.process_time() - began
        spent, worst = spent + took, max(worst, took)
        if (second + 1) % 600 == 0:
            print(f"{second + 1} s: {spent:.1f} CPU s, {recorder.size / 1e6:.1f} MB", flush=True)
    began = time.process_time()
    recorder.close()
    spent += time.process_time() - began
    size = sum(file.stat().st_size for file in folder.iterdir())
    read = check(path, clock, subjects, figures, seconds)
    return {
        "gpus": gpus,
        "series": gpus * len(figures),
        "seconds": seconds,
        "values": gpus * len(figures) * seconds,
        "mb_on_disk": round(size / 1e6, 2),
        "cpu_seconds": round(spent, 2),
        "cpu_share": round(spent / seconds, 5),
        "longest_add_ms": round(1000 * worst, 1),
        "read_hour_ms": round(1000 * read, 2),
        "aim_mb": AIM_MB,
        "aim_share": AIM_SHARE,
        **machine.facts(),
    }


def check(
    path: Path,
    clock: Clock,
    subjects: list[Subject],
    figures: dict[Measure, NDArray[np.float64]],
    seconds: int,
) -> float:
    """Everything that was told is read again after a restart; the seconds that one series took."""
    recorder = Recorder(path, clock=clock)
    chosen = range(0, len(subjects), max(1, len(subjects) // 20))
    began = time.perf_counter()
    for i in chosen:
        for measure, values in figures.items():
            found = recorder.read(subjects[i], measure, START, START + seconds, 1.0)
            np.testing.assert_allclose(found.values, values[:, i], rtol=1e-6)
    took = time.perf_counter() - began
    recorder.close()
    return took / (len(chosen) * len(figures))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=3600)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="grus-recorder-") as folder:
        print(json.dumps(run(chosen.gpus, chosen.seconds, Path(folder))))


if __name__ == "__main__":
    main()
