"""Checkpoints of a split model: each stage keeps its own part, under the names of the whole model.

    checkpoints/
    ├── stage-0-of-2/step-000000000120/
    └── stage-1-of-2/step-000000000120/

A step counts when all parts of it are whole. Any other division can read them: each stage picks its names.
Written without a copy in memory, while the training waits: on a full GPU there is no room for one.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grus.elastic.training_state import checkpoint_files as files
from grus.elastic.training_state.checkpoints import Checkpoints

KEPT = 2
"""Number of versions of each part that are kept.

If one stage was faster than another, the older version is complete in both.
"""
_NAME = re.compile(r"stage-(\d+)-of-(\d+)")


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved state of one stage, all of it by the names of the model's parameters and buffers."""

    model: dict[str, Tensor]
    optimizer: dict[str, dict[str, Any]]
    progress: tuple[int, int, int]


def folder_of(folder: Path, stage: int, count: int) -> Path:
    return folder / f"stage-{stage}-of-{count}"


def prepare(folder: Path, stage: int, count: int) -> None:
    """Raises CheckpointError if nothing can be saved there."""
    for one in (folder, folder_of(folder, stage, count)):
        Checkpoints(one).check()


def save(folder: Path, stage: int, count: int, state: Saved) -> None:
    """Now, and durable; older ones go."""
    own = folder_of(folder, stage, count)
    held = {"model": state.model, "optimizer": state.optimizer, "progress": state.progress}
    files.place(own, state.progress[2], lambda file: torch.save(held, file))  # type: ignore[arg-type]  # torch needs no more than `Sink` of a file
    for old in files.found(own)[KEPT:]:
        files.remove(old)


def newest(folder: Path) -> tuple[int, int] | None:
    """(number of stages, step) of the newest that is whole in all of its parts."""
    parts: dict[int, dict[int, set[int]]] = defaultdict(dict)
    for one in folder.iterdir() if folder.is_dir() else ():
        if match := _NAME.fullmatch(one.name):
            steps = {int(path.name.removeprefix("step-")) for path in files.found(one)}
            parts[int(match[2])][int(match[1])] = steps
    candidates = [
        (step, count)
        for count, stages in parts.items()
        if len(stages) == count
        for step in set.intersection(*stages.values())
    ]
    for step, count in sorted(candidates, reverse=True):
        if all(files.is_whole(path) for path in _paths(folder, count, step)):
            return count, step
    return None


def load(folder: Path, count: int, step: int, wanted: Collection[str], first: int) -> Saved:
    """Return the wanted part; the stage `first` is searched first and mostly has all of it."""
    missing = set(wanted)
    model: dict[str, Tensor] = {}
    optimizer: dict[str, dict[str, Any]] = {}
    progress = (0, 0, step)
    order = sorted(range(count), key=lambda stage: stage != first)
    for path in (_paths(folder, count, step)[stage] for stage in order):
        if not missing:
            break
        held: Mapping[str, Any] = torch.load(path / files.STATE, map_location="cpu", weights_only=True)
        here = missing & set(held["model"])
        model |= {name: held["model"][name] for name in here}
        optimizer |= {name: held["optimizer"][name] for name in here if name in held["optimizer"]}
        progress = held["progress"]
        missing -= here
    if missing:
        raise KeyError(f"the checkpoint of step {step} in {folder} has no {', '.join(sorted(missing))}")
    return Saved(model, optimizer, progress)


def _paths(folder: Path, count: int, step: int) -> list[Path]:
    return [folder_of(folder, stage, count) / f"step-{step:012d}" for stage in range(count)]
