"""Artifacts: results that one stage passes to the next, by name, and content-addressed."""

from dataclasses import dataclass

from grus.model.identifiers import JobId

MOST_RESULTS = 32
"""Maximum number of inputs, or outputs, of one job."""


@dataclass(frozen=True, slots=True)
class Output:
    """A result that a job leaves behind."""

    name: str
    path: str = ""
    """File or folder below the workdir; empty for a folder of its own, made by Grus (GRUS_OUTPUT_NAME)."""


@dataclass(frozen=True, slots=True)
class Input:
    """A result of another job, there before this one starts (GRUS_INPUT_NAME)."""

    name: str
    job: JobId
    output: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A result that is kept: the hash of all that is in it, and how much that is."""

    name: str
    """Name of the output."""
    digest: str
    size: int


def input_variable(name: str) -> str:
    """Return the environment variable that holds the path of this input."""
    return f"GRUS_INPUT_{_upper(name)}"


def output_variable(name: str) -> str:
    """Return the environment variable that holds the path of this output."""
    return f"GRUS_OUTPUT_{_upper(name)}"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
