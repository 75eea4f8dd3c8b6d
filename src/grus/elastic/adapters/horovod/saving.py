"""Saving at a pause: Horovod has no call for it, so the job's own folder keeps the state.

A pause must lose nothing.
"""

import os
from typing import Any

from grus.elastic.training_state.checkpoints import Checkpoints
from grus.sdk import worker

FOLDER = "horovod"


def kept() -> Checkpoints | None:
    """Return the checkpoints of this job's state; None without a job or a folder for them."""
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
    """Resume from the state that an earlier attempt has saved, if there is one."""
    checkpoints = kept() if worker.resuming() else None
    if checkpoints is None or not hasattr(state, "put") or (found := checkpoints.load()) is None:
        return
    state._commits, saved = found
    state.put(saved)
    state.save()
