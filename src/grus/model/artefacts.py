"""What one stage hands to the next: results by name, told apart by their content."""

from dataclasses import dataclass

from grus.model.identifiers import JobId


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
class Artefact:
    """A result that is kept: the hash of all that is in it, and how much that is."""

    name: str
    """Of the output."""
    digest: str
    size: int


def input_variable(name: str) -> str:
    """What a program finds the path of this input under."""
    return f"GRUS_INPUT_{_upper(name)}"


def output_variable(name: str) -> str:
    """What a program finds the path of this output under."""
    return f"GRUS_OUTPUT_{_upper(name)}"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
