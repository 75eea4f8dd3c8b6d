"""What the program around a job's own says of its outputs, in the worker's report. Pure; a job's word.

{"at": …, "artefacts": [["model", "9f86d0…", 52428800]]}
{"at": …, "trouble": "input data (output data of job j0c4…): artefact 9f86d081884c is not kept any more"}
"""

import json

from grus.api.fields import NAME
from grus.api.stages_in import MOST_RESULTS
from grus.model.artefacts import Artefact

LONGEST_TROUBLE = 1000
_HEX = frozenset("0123456789abcdef")


def artefacts(line: str) -> tuple[Artefact, ...]:
    """What is kept; nothing, if anything about it makes no sense."""
    said = _object(line).get("artefacts")
    if not isinstance(said, list) or len(said) > MOST_RESULTS:
        return ()
    found = [_artefact(one) for one in said]
    return tuple(one for one in found if one is not None) if all(found) else ()


def trouble(line: str) -> str:
    """Why it could not go on, as a sentence; empty if it does not say."""
    said = _object(line).get("trouble")
    return said[:LONGEST_TROUBLE] if isinstance(said, str) and said.isprintable() else ""


def _artefact(said: object) -> Artefact | None:
    match said:
        case [str(name), str(digest), int(size)] if (
            NAME.fullmatch(name) and len(digest) == 64 and _HEX.issuperset(digest) and 0 <= size < 1 << 62
        ):
            return Artefact(name, digest, size)
    return None


def _object(line: str) -> dict[str, object]:
    try:
        found = json.loads(line) if line else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
