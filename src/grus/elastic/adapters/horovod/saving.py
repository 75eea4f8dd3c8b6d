"""A pause must lose nothing, though Horovod has no word for it: the job's own folder keeps the state."""

import os
from typing import Any

from grus.elastic.checkpoints import Checkpoints
from grus.sdk import worker

FOLDER = "horovod"


def kept() -> Checkpoints | None:
    """Where this job keeps its state; None outside a job, and in one that names no folder."""
    job = os.environ.get("GRUS_JOB")
    if not job or not os.environ.get("GRUS_CHECKPOINT"):
        return None
    return Checkpoints(worker.checkpoint_path() / job / FOLDER)


def save(state: Any) -> None:
    if (checkpoints := kept()) is not None and hasattr(state, "now"):
        checkpoints.folder.parent.mkdir(parents=True, exist_ok=True)
        checkpoints.check()
        checkpoints.save(state._commits, state.now(), wait=True)
        checkpoints.wait()
        worker.saved()


def load(state: Any) -> None:
    """Go on from what an earlier attempt has saved, if there is something."""
    checkpoints = kept() if worker.resuming() else None
    if checkpoints is None or not hasattr(state, "put") or (found := checkpoints.load()) is None:
        return
    state._commits, saved = found
    state.put(saved)
    state.save()
