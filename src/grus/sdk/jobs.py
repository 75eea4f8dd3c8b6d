"""Job in Python: `Job(...)`, with the fields of a job file as keywords.

    Job(run="python train.py", gpu="2..8", queue="vision")

A Job is a JobIn: it keeps every rule from the moment it exists. Nothing here talks to a server.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.resources import ResourcesIn
from grus.api.parsing.validation_errors import Place, mistakes_of
from grus.model.errors import BadInput

_HERE = {"gpus": "gpu", "num_gpus": "gpu", "cpus": "cpu", "mem": "memory", "size": "sizes"}


class Job(JobIn):
    """Job to submit: its command and its resources. Raises BadInput with every error, each with the rule that
    it breaks.

    Relative paths are relative to the current folder, which is also the default `workdir`.
    """

    synonyms: ClassVar[Mapping[str, str]] = {
        **JobIn.synonyms,
        **{word: f"did you mean {meant}?" for word, meant in _HERE.items()},
    }

    def __init__(
        self,
        run: str | Sequence[str] | None = None,
        *,
        train: Mapping[str, object] | None = None,
        sweep: Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        serve: Mapping[str, object] | None = None,
        gpu: str | int | float | None = None,
        sizes: Sequence[int] | None = None,
        mixed: bool | None = None,
        cpu: float | None = None,
        memory: str | None = None,
        share: str | None = None,
        estimate: str | None = None,
        name: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        setup: str | Sequence[str] | None = None,
        launch: str | None = None,
        resize: str | None = None,
        priority: str | int | None = None,
        checkpoint: str | Mapping[str, object] | None = None,
        idle: Mapping[str, object] | None = None,
        max_runtime: str | float | None = None,
        retries: int | None = None,
        after: str | Sequence[str] | None = None,
        inputs: Mapping[str, str] | None = None,
        outputs: str | Sequence[str] | Mapping[str, str] | None = None,
        when: str | None = None,
        roles: Mapping[str, Mapping[str, object]] | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] | Mapping[str, str] | None = None,
        workdir: str | os.PathLike[str] | None = None,
        snapshot: bool | None = None,
        data: str | Sequence[str] | None = None,
        image: str | None = None,
        pod: Mapping[str, object] | None = None,
        node_selector: Mapping[str, str] | None = None,
        affinity: Mapping[str, object] | None = None,
        resources: Mapping[str, object] | ResourcesIn | None = None,
        **unknown: object,
    ) -> None:
        given = {
            "run": run,
            "train": train,
            "sweep": sweep,
            "params": params,
            "serve": serve,
            "name": name,
            "queue": queue,
            "type": type,
            "setup": setup,
            "launch": launch,
            "resize": resize,
            "priority": priority,
            "checkpoint": {"path": checkpoint} if isinstance(checkpoint, str) else checkpoint,
            "idle": idle,
            "max_runtime": max_runtime,
            "retries": retries,
            "after": [after] if isinstance(after, str) else after,
            "inputs": inputs,
            "outputs": outputs,
            "when": when,
            "roles": roles,
            "env": env,
            "secrets": secrets,
            "snapshot": snapshot,
            "data": data,
            "image": image,
            "pod": pod,
            "node_selector": node_selector,
            "affinity": affinity,
            **unknown,
        }
        amounts = {
            "gpu": gpu,
            "sizes": sizes,
            "mixed": mixed,
            "cpu": cpu,
            "memory": memory,
            "share": share,
            "estimate": estimate,
        }
        fields: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        fields |= _resources(resources, {key: value for key, value in amounts.items() if value is not None})
        fields["workdir"] = _workdir(workdir)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise BadInput(_in_keywords(error, flat=resources is None)) from None


def _resources(whole: object, amounts: dict[str, object]) -> dict[str, object]:
    """Return `resources=` as in a job file, or its fields as keywords (which win)."""
    if whole is None:
        return {"resources": amounts} if amounts else {}
    if isinstance(whole, ResourcesIn):
        whole = whole.model_dump(exclude_unset=True)
    return {"resources": {**whole, **amounts} if isinstance(whole, Mapping) else whole}


def _workdir(given: str | os.PathLike[str] | None) -> object:
    try:
        path = os.fspath(given) if given is not None else ""
    except TypeError:
        return given
    return os.path.abspath(os.path.expanduser(path)) if isinstance(path, str) else given


def _in_keywords(error: ValidationError, *, flat: bool) -> list[Any]:
    """Return the errors under the names of the keywords: `gpu`, not `resources.gpu`."""
    errors = []
    for one in error.errors(include_url=False):
        place: Place = tuple(one["loc"])
        if flat and place[:1] == ("resources",) and len(place) > 1:
            place = place[1:]
        errors.append({**one, "loc": place})
    return mistakes_of(errors)
