"""Shared code of all converters: the GpuJob made of another system's object, and the way back. Pure.

The GpuJob belongs to the object it was made of and is deleted with it. Annotations on an object set options
for which its own kind has no field: `grus.dev/queue`, `grus.dev/priority`, and those that its converter
names.
"""

import hashlib
import json
from typing import Any

from grus.kubernetes.install.custom_resources import API_VERSION, GROUP
from grus.model.errors import BadInput, Mistake
from grus.model.jobs import TERMINAL
from grus.operator.conditions import Condition, with_conditions, without

Object = dict[str, Any]

QUEUE = f"{GROUP}/queue"
PRIORITY = f"{GROUP}/priority"
MADE_OF = f"{GROUP}/made-of"
"""Label of a GpuJob: the kind of object that it was made of, in lower case."""
MADE_FROM = f"{GROUP}/made-from"
"""Annotation of a GpuJob: digest of the fields of that object at that time."""
FOLLOWED = "targetReplicas"
"""The field that is followed while a job runs."""
LONGEST = 63
APPLIED = "Applied"
_UNAPPLIED = Condition(
    APPLIED,
    False,
    "CannotApply",
    f"only {FOLLOWED} is followed while its job runs; the job keeps the other fields as they were when it was"
    " submitted. To apply the change, delete the object and apply it again",
)


def annotation(source: Object, name: str, default: str = "") -> str:
    found = source["metadata"].get("annotations") or {}
    return str(found.get(name, default)).strip()


def job_name(source: Object) -> str:
    """Return the name of its GpuJob: the kind and the name, cut to length with a hash if it is too long."""
    whole = f"{source['kind'].lower()}-{source['metadata']['name']}".replace(".", "-")
    if len(whole) <= LONGEST:
        return whole
    trace = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: LONGEST - 9].rstrip('-')}-{trace}"


def gpu_job(source: Object, spec: Object) -> Object:
    """Return the GpuJob with this spec, and the options in the object's annotations."""
    metadata = source["metadata"]
    owner = {
        "apiVersion": source["apiVersion"],
        "kind": source["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    said = {"queue": annotation(source, QUEUE), "priority": _priority(source)}
    return {
        "apiVersion": API_VERSION,
        "kind": "GpuJob",
        "metadata": {
            "name": job_name(source),
            "namespace": metadata["namespace"],
            "labels": {MADE_OF: source["kind"].lower()},
            "annotations": {MADE_FROM: fields_digest(source)},
            "ownerReferences": [owner],
        },
        "spec": {**spec, **{name: value for name, value in said.items() if value != ""}},
    }


def fields_digest(source: Object) -> str:
    """Digest of everything that its job is made from and that is not followed later."""
    notes = source["metadata"].get("annotations") or {}
    said = {name: value for name, value in notes.items() if name.startswith(f"{GROUP}/")}
    text = json.dumps([_unfollowed(source.get("spec")), said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _unfollowed(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: _unfollowed(value) for name, value in part.items() if name != FOLLOWED}


def with_unapplied(status: Object, source: Object, job: Object, now: float) -> Object:
    """The status, with Applied=False where the object has changed since its job was made from it."""
    made_from = (job["metadata"].get("annotations") or {}).get(MADE_FROM)
    if made_from in (None, fields_digest(source)) or status.get("phase") in TERMINAL:
        return status
    before = (source.get("status") or {}).get("conditions") or ()
    known = [one for one in before if one.get("type") == APPLIED and one.get("status") == "False"]
    others = without(status.get("conditions") or (), APPLIED)
    return {**status, "conditions": with_conditions([*others, *known], [_UNAPPLIED], now)}


def _priority(source: Object) -> str | int:
    written = annotation(source, PRIORITY)
    return int(written) if written.isdecimal() else written


def wrong(*mistakes: Mistake) -> BadInput:
    return BadInput(list(mistakes))


def mirrored(job: Object) -> Object:
    """Return the part of a GpuJob's status that every converted object shows."""
    status = job.get("status") or {}
    kept = ("phase", "reason", "gpus", "conditions")
    told = {name: status[name] for name in kept if name in status}
    return {"job": f"gpujob.{GROUP}/{job['metadata']['name']}", **told}


def refused(error: BadInput, now: str) -> Object:
    """Return the status of an object that no job can be made of: all errors, by its own fields' names."""
    condition = {
        "type": "Admitted",
        "status": "False",
        "reason": "Mistakes",
        "message": str(error),
        "lastTransitionTime": now,
    }
    return {"phase": "refused", "reason": str(error), "conditions": [condition]}
