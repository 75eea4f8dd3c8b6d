"""The files of the OSDI'21 artifact, under `$GRUS_DATA/pollux`: workloads, measurements, published times."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path

from grus.simulator.workload.pollux_applications import EPOCHS, Application, make_application

WORKLOADS = tuple(range(1, 9))


def data_folder() -> Path | None:
    """Where the files are, or None when `$GRUS_DATA` does not say so."""
    folder = Path(os.environ.get("GRUS_DATA", "")) / "pollux"
    return folder if "GRUS_DATA" in os.environ and folder.is_dir() else None


@dataclass(frozen=True, slots=True)
class Submission:
    """One line of a workload; `gpus` and `batch` are the tuned request, for rigid policies only."""

    name: str
    time: int
    application: str
    gpus: int
    batch: int


def read_application(folder: Path) -> Application:
    runs = {int(path.stem.split("-")[1]): read_rows(path) for path in folder.glob("validation-*.csv")}
    placed, scaled = read_rows(folder / "placements.csv"), read_rows(folder / "scalability.csv")
    return make_application(folder.name, placed, scaled, runs)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_applications(data: Path) -> dict[str, Application]:
    return {name: read_application(data / "traces" / name) for name in sorted(EPOCHS)}


def read_workload(data: Path, number: int) -> list[Submission]:
    return [
        Submission(
            name=row["name"],
            time=int(row["time"]),
            application=row["application"],
            gpus=int(row["num_replicas"]),
            batch=int(row["batch_size"]),
        )
        for row in read_rows(data / "workloads" / f"workload-{number}.csv")
    ]


def published(data: Path, policy: str) -> dict[int, dict[str, float]]:
    """Completion time of every job as published, by workload."""
    text = (data / "published_results" / f"{policy}-1.0.json").read_text()
    return {int(name.split("-")[1]): times for name, times in json.loads(text)["jcts"].items()}
