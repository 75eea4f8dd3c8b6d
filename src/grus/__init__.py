"""Grus: one pool out of a team's GPUs.

The names below are loaded when first used, so that `import grus` costs a training script nothing. The
distribution grus-gpu-sdk, for the environment of a job, has all of them but Client, Handle and Job.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grus.elastic.run import Run as Run
    from grus.elastic.train import train as train
    from grus.sdk.client import Client as Client
    from grus.sdk.client import Handle as Handle
    from grus.sdk.jobs import Job as Job
    from grus.sdk.worker import checkpoint_path as checkpoint_path
    from grus.sdk.worker import input as input
    from grus.sdk.worker import output as output
    from grus.sdk.worker import params as params
    from grus.sdk.worker import report as report
    from grus.sdk.worker import resuming as resuming
    from grus.sdk.worker import saved as saved
    from grus.sdk.worker import should_pause as should_pause

__version__ = "0.1.0"

_HOMES = {
    "Client": "grus.sdk.client",
    "Handle": "grus.sdk.client",
    "Job": "grus.sdk.jobs",
    "Run": "grus.elastic.run",
    "checkpoint_path": "grus.sdk.worker",
    "input": "grus.sdk.worker",
    "output": "grus.sdk.worker",
    "params": "grus.sdk.worker",
    "report": "grus.sdk.worker",
    "resuming": "grus.sdk.worker",
    "saved": "grus.sdk.worker",
    "should_pause": "grus.sdk.worker",
    "train": "grus.elastic.train",
}

__all__ = [
    "Client",
    "Handle",
    "Job",
    "Run",
    "checkpoint_path",
    "input",
    "output",
    "params",
    "report",
    "resuming",
    "saved",
    "should_pause",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'grus' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if not (needed := _needed(error.name or "")):
            raise
        raise ModuleNotFoundError(f"grus.{name} needs {needed}", name=error.name) from error
    globals()[name] = value
    return value


def _needed(module: str) -> str:
    """The missing part and the command that installs it; empty for a module of somebody else."""
    if module in ("torch", "numpy"):
        return f"{module}: pip install 'grus-gpu-sdk[torch]'"
    return "the distribution grus-gpu: pip install grus-gpu" if module.startswith("grus.") else ""


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
