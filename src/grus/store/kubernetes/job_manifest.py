"""Specs of GpuJobs: a job's spec as a user would have written it. Pure; the inverse of
`api.inputs.job_spec.to_spec`.

For jobs that were not submitted as objects. It is for users only: the record in the status is authoritative.
"""

import json

from grus.api.inputs.job_spec import SHELL
from grus.kubernetes.client.resource_kinds import Object
from grus.model.jobs import Affinity, Checkpoint, Idle, JobType, Launch, Resizing, Spec
from grus.model.resources import Range, Replica, Request, Role
from grus.model.texts.units import GpuAsk, render_bytes, render_gpu, render_percent


def written(spec: Spec) -> Object:
    """Return the `spec` of its object."""
    form: Object = {"queue": spec.queue, "priority": spec.priority}
    roles = spec.request.roles
    if spec.run and len(roles) == 1:
        form |= {"run": _command(spec.run), "launch": spec.launch.value}
        form["resources"] = _resources(roles[0].replica, roles[0].replicas, spec.request.sizes)
        if spec.request.auto:
            form["resources"] |= _auto(spec.request)
            if spec.launch is Launch.ONCE:  # so is how it is launched
                del form["launch"]
        if spec.request.shares:
            form["resources"]["share"] = "auto"
        if spec.request.mixed:
            form["resources"]["mixed"] = True
    else:
        form["roles"] = {role.name: _role(role, spec.request.sizes) for role in roles}
        if spec.request.mixed:
            form["roles"][roles[0].name]["resources"]["mixed"] = True
    return form | _rest(spec)


def _rest(spec: Spec) -> Object:
    """Return fields that only some jobs have."""
    form: Object = {
        "type": spec.type.value if spec.type is not JobType.TRAIN else None,
        "resize": spec.resize.value if spec.resize is not Resizing.AUTO else None,
        "setup": list(spec.setup),
        "checkpoint": _checkpoint(spec.checkpoint),
        "idle": None if spec.idle is None else _idle(spec.idle),
        "max_runtime": spec.max_runtime,
        "retries": spec.retries,
        "after": list(spec.after),
        "when": "always" if spec.after_failure else None,
        "env": dict(spec.env),
        "secrets": dict(spec.secrets),
        "workdir": spec.workdir,
        "snapshot": spec.snapshot,
        "data": list(spec.data),
        "node_selector": dict(spec.node_selector),
        "affinity": _affinity(spec.affinity),
        **_pods(spec),
    }
    return {name: value for name, value in form.items() if value}


def _role(role: Role, sizes: tuple[int, ...]) -> Object:
    replicas = role.replicas
    gpus = role.replica.gpus
    resources = _resources(role.replica, Range(gpus, gpus), () if replicas.rigid else sizes)
    return {
        **({"run": _command(role.run)} if role.run else {}),
        "replicas": replicas.low if replicas.rigid else str(replicas),
        "resources": resources,
        **{name: value for name, value in _pods(role).items() if value},
    }


def _resources(replica: Replica, count: Range, sizes: tuple[int, ...]) -> Object:
    """Return CPU and memory per GPU, which the core keeps per replica."""
    whole = bool(replica.gpus)
    times = max(replica.gpus, 1)
    ask = GpuAsk(count if whole else Range(0, 0), replica.share, replica.gpu_memory, replica.types)
    form: Object = {
        "sizes": list(sizes),
        "cpu": replica.cpu / 1000 / times,
        "memory": render_bytes(replica.memory // times) if replica.memory else "",
    }
    return {"gpu": render_gpu(ask)} | {name: value for name, value in form.items() if value}


def _auto(request: Request) -> Object:
    """Return a size that is left to Grus, with the execution plans that were found."""
    ways = [
        {
            "gpus": way.gpus,
            **({"memory": render_bytes(way.memory)} if way.memory else {}),
            "how": " ".join(way.how),
            "speed": way.speed,
        }
        for way in request.ways
    ]
    gpu = render_gpu(GpuAsk(types=request.roles[0].replica.types, auto=True))
    return {"gpu": gpu, **({"ways": ways} if ways else {})}


def _pods(asked: Spec | Role) -> Object:
    """Return the fields about its pods."""
    return {"image": asked.image, "pod": json.loads(asked.pod) if asked.pod else {}}


def _command(run: tuple[str, ...]) -> str | list[str]:
    return run[2] if run[:2] == SHELL and len(run) == 3 else list(run)


def _checkpoint(one: Checkpoint) -> Object:
    if one == Checkpoint():
        return {}
    form: Object = {"path": one.path, "grace": one.grace, "every": one.every}
    return {name: value for name, value in form.items() if value not in (None, "")}


def _idle(one: Idle) -> Object:
    return {"below": render_percent(one.below), "for": one.seconds, "action": one.action}


def _affinity(one: Affinity) -> Object:
    form: Object = {"prefer": dict(one.prefer), "avoid_nodes": list(one.avoid_nodes)}
    return {name: value for name, value in form.items() if value}
