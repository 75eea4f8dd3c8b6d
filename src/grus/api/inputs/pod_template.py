"""Pod templates: fields of pods on Kubernetes that a job may set beyond Grus's own, laid over Grus's pod.

Pure. `checked` validates it, `text` gives it the one form in which it is kept, `merged` lays one over
another: a role's over the job's, and the result over the pod that the engine makes. Grus alone sets the node,
the command and the end of a pod; they cannot be set here.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grus.api.parsing.validation_errors import BrokenRule, Place, failure

Pod = dict[str, Any]

LARGEST = 64 * 1024
"""Maximum bytes of its text: it is kept with every job."""
DEEPEST = 24
OURS = "grus.dev/"
_NAMES = {"volumeMounts": "mountPath", "volumeDevices": "devicePath", "ports": "containerPort"}
"""Keys that identify entries of a list, if not their name."""
_PARTS = ("metadata", "spec")
_METADATA = ("labels", "annotations")
_SET_BY_GRUS = {
    "nodeName": "is where Grus puts the pod; use node_selector and affinity",
    "schedulerName": "is grus",
    "restartPolicy": "is Never: use retries",
    "hostname": "is set by Grus, so that workers find each other",
    "subdomain": "is set by Grus, so that workers find each other",
    "shareProcessNamespace": "is set by Grus",
    "terminationGracePeriodSeconds": "is checkpoint.grace",
    "activeDeadlineSeconds": "is max_runtime",
    "nodeSelector": "is node_selector, beside run",
    "affinity": "is Grus's own affinity, beside run",
    "topologySpreadConstraints": "is not for gangs: Grus places them together",
}
_CONTAINER = {
    "name": "is set by Grus",
    "image": "is written beside run",
    "command": "is run, at the top",
    "args": "is run, at the top",
    "workingDir": "is workdir, at the top",
}


def checked(value: Any) -> Pod:
    """Check a field: return the value as it is, or raise every rule that it breaks."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping: part of a pod, with metadata and spec")
    broken = _form(value)
    if not broken:
        broken = [*_metadata(value.get("metadata")), *_spec(value.get("spec"))]
    if broken:
        raise failure(broken)
    return dict(value)


def text(pod: Mapping[str, Any]) -> str:
    """Return its text; equal parts have equal texts; "" for none."""
    return json.dumps(pod, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if pod else ""


def of_text(written: str) -> Pod:
    return dict(json.loads(written)) if written else {}


def merged_texts(below: str, above: str) -> str:
    """Return the two laid over each other, as text."""
    if not (below and above):
        return above or below
    return text(merged(of_text(below), of_text(above)))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Pod:
    """Lay `above` over `below`. Mappings are merged key by key; entries of a list are merged with the entries
    of the same name (mounts: of the same path), the one container with the first, and the rest is
    appended. Variables and lists of words are replaced.
    """
    found = dict(below)
    for key, value in above.items():
        found[key] = _over(found[key], value, key) if key in found else value
    return found


def _over(below: Any, above: Any, key: str) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return merged(below, above)
    if not (isinstance(below, Sequence) and isinstance(above, list)) or isinstance(below, str):
        return above
    tables = all(isinstance(entry, Mapping) for entry in (*below, *above))
    return _lists(list(below), above, key) if tables else above


def _lists(below: list[Any], above: list[Any], key: str) -> list[Any]:
    found = list(below)
    for entry in above:
        at = _place(found, entry, key)
        if at is None:
            found += [] if entry in found else [entry]
        else:
            found[at] = entry if key == "env" else merged(found[at], entry)
    return found


def _place(found: list[Any], entry: Mapping[str, Any], key: str) -> int | None:
    """Return the index of the entry that this one belongs to; None for a new one."""
    name = _NAMES.get(key, "name")
    if key == "containers" and "name" not in entry:
        return 0 if found else None
    for index, other in enumerate(found):
        if name in entry and other.get(name) == entry[name]:
            return index
    return None


# ------------------------------------------------------------------------------------------------ rules


def _form(value: Mapping[Any, Any]) -> list[BrokenRule]:
    """Return the errors of the value as a whole: depth, JSON, size and unknown parts."""
    if _depth(value) > DEEPEST:
        return [BrokenRule((), f"is nested more than {DEEPEST} levels deep")]
    try:
        size = len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        return [BrokenRule((), f"cannot be written as JSON: {error}")]
    return [BrokenRule((), f"must have at most {LARGEST // 1024} KiB")] if size > LARGEST else _unknown(value)


def _depth(value: Any) -> int:
    deepest, left = 0, [(value, 1)]
    while left and deepest <= DEEPEST:
        one, depth = left.pop()
        deepest = max(deepest, depth)
        inside: Iterable[Any] = ()
        if isinstance(one, Mapping):
            inside = one.values()
        elif isinstance(one, list | tuple):
            inside = one
        left += [(inner, depth + 1) for inner in inside]
    return deepest


def _unknown(value: Mapping[Any, Any]) -> list[BrokenRule]:
    rule = "is not a part here; the parts are metadata and spec"
    found = [BrokenRule((str(key),), rule, one) for key, one in value.items() if key not in _PARTS]
    for part in _PARTS:
        if part in value and not isinstance(value[part], Mapping):
            found.append(BrokenRule((part,), "must be a mapping", value[part]))
    return found


def _metadata(metadata: Mapping[str, Any] | None) -> list[BrokenRule]:
    found = []
    for key, table in (metadata or {}).items():
        at: Place = ("metadata", key)
        if key not in _METADATA:
            found.append(BrokenRule(at, "cannot be set; only labels and annotations can", table))
        elif not isinstance(table, Mapping):
            found.append(BrokenRule(at, "must be a mapping", table))
        else:
            found += [
                BrokenRule((*at, name), "is Grus's own; choose another name", text_)
                for name, text_ in table.items()
                if str(name).startswith(OURS)
            ]
            found += [
                BrokenRule((*at, name), "must be text; write it in quotes", text_)
                for name, text_ in table.items()
                if not isinstance(text_, str)
            ]
    return found


def _spec(spec: Mapping[str, Any] | None) -> list[BrokenRule]:
    spec = spec or {}
    found = [BrokenRule(("spec", key), rule, spec[key]) for key, rule in _SET_BY_GRUS.items() if key in spec]
    containers = spec.get("containers", [])
    if not isinstance(containers, list) or not all(isinstance(one, Mapping) for one in containers):
        return [*found, BrokenRule(("spec", "containers"), "must be a list of containers", containers)]
    if len(containers) > 1:
        rule = "must have one container at most, the worker's: a job ends when its workers do"
        found.append(BrokenRule(("spec", "containers"), rule))
    for container in containers[:1]:
        found += [
            BrokenRule(("spec", "containers", 0, key), rule, container[key])
            for key, rule in _CONTAINER.items()
            if key in container
        ]
    return found
