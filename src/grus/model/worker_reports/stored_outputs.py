"""Output reports: artifacts and errors that the program around a job's own adds to the worker's report. Pure;
claims of the job.

{"at": …, "artefacts": [["model", "9f86d0…", 52428800]]}
{"at": …, "trouble": "input data (output data of job j0c4…): artefact 9f86d081884c is not kept any more"}
"""

from grus.model.artifacts import MOST_RESULTS, Artifact
from grus.model.identifiers import NAME
from grus.model.worker_reports.report_lines import parsed

LONGEST_TROUBLE = 1000
_HEX = frozenset("0123456789abcdef")


def artefacts(line: str) -> tuple[Artifact, ...]:
    """Return the artifacts reported as kept; none, if anything about the report is invalid."""
    said = parsed(line).get("artefacts")
    if not isinstance(said, list) or len(said) > MOST_RESULTS:
        return ()
    found = [_artefact(one) for one in said]
    return tuple(one for one in found if one is not None) if all(found) else ()


def trouble(line: str) -> str:
    """Return the reason why the worker could not continue, as a sentence; empty if it reports none."""
    said = parsed(line).get("trouble")
    return said[:LONGEST_TROUBLE] if isinstance(said, str) and said.isprintable() else ""


def _artefact(said: object) -> Artifact | None:
    match said:
        case [str(name), str(digest), int(size)] if (
            NAME.fullmatch(name) and len(digest) == 64 and _HEX.issuperset(digest) and 0 <= size < 1 << 62
        ):
            return Artifact(name, digest, size)
    return None
