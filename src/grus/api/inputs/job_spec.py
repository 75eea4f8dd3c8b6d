"""Conversion of a user's job (`JobIn`) to the core's `Spec`. Pure; every submission runs it."""

import json
import os.path
import re
from collections.abc import Mapping, Sequence

from grus.api.inputs import pod_template
from grus.api.inputs.job_schema import IdleIn, JobIn
from grus.api.inputs.resources import ResourcesIn, WayIn
from grus.api.inputs.serving_schema import ServeIn, serve_argv, serve_name
from grus.api.inputs.sweep_schema import to_sweep
from grus.api.inputs.training_schema import TrainIn, section_name
from grus.api.inputs.workflow_stages import ALWAYS, split_reference
from grus.model.artifacts import Input, Output
from grus.model.distributed_options import Strategy, parse
from grus.model.errors import BadInput, Mistake
from grus.model.execution_plans import Way
from grus.model.identifiers import NAME, JobId, QueueName, looks_like_job_id
from grus.model.job_spec import TRAINER, is_bundle, is_path
from grus.model.jobs import (
    PRIORITIES,
    USUAL_PRIORITY,
    Affinity,
    Checkpoint,
    Idle,
    JobType,
    Launch,
    Resizing,
    Spec,
)
from grus.model.resources import Range, Replica, Request, Role
from grus.model.texts.units import GpuAsk, parse_bytes, parse_gpu, parse_percent, parse_range, parse_seconds

WORKER = "worker"
"""Role of all replicas of a job that names no roles."""
SHELL = ("/bin/sh", "-c")
_INTERPRETERS = re.compile(
    r"(python|bash|sh|torchrun|accelerate|mpirun|env|uv|exec|nohup|time)[0-9.]*", re.ASCII
)
_NO_AFTER: Mapping[str, JobId] = {}


def to_spec(job: JobIn, *, after: Mapping[str, JobId] = _NO_AFTER) -> Spec:
    """Return the spec of the job; `after` gives the ids of earlier stages by name. Raises BadInput.

    Without `launch` in the job the default is used: per-gpu for a range, else once. A caller that knows the
    pool may change it with `with_launch`.
    """
    stages, mistakes = _after(job, after)
    inputs, more = _inputs(job, after)
    mistakes += more
    if job.workdir and not os.path.isabs(job.workdir) and not is_bundle(job.workdir):
        rule = "must be an absolute path here; only in a job file is it relative, to the file's folder"
        mistakes.append(Mistake("workdir", rule, job.workdir))
    if mistakes:
        raise BadInput(mistakes)
    request, launch = _request(job)
    kind = JobType(job.type) if job.sweep is None else JobType.SWEEP
    return Spec(
        name=job.name or default_name(job),
        queue=QueueName(job.queue),
        run=_run(job),
        request=request,
        type=kind,
        launch=launch,
        resize=_resizing(job, kind),
        setup=(job.setup,) if isinstance(job.setup, str) else tuple(job.setup or ()),
        priority=_priority(job.priority, kind),
        checkpoint=_checkpoint(job),
        idle=idle_of(job.idle),
        max_runtime=None if job.max_runtime is None else parse_seconds(job.max_runtime),
        retries=job.retries,
        after=tuple(dict.fromkeys((*stages, *(one.job for one in inputs)))),
        inputs=inputs,
        outputs=tuple(Output(name, path) for name, path in job.outputs.items()),
        after_failure=job.when == ALWAYS,
        env=tuple(sorted(job.env.items())),
        secrets=tuple(sorted(job.secrets.items())),
        workdir=os.path.normpath(job.workdir) if job.workdir else "",
        snapshot=job.snapshot,
        data=_data(job),
        node_selector=tuple(sorted(job.node_selector.items())),
        affinity=_affinity(job),
        image=job.image or "",
        pod=pod_template.text(job.pod),
        params=tuple(job.params.items()),
        sweep=None if job.sweep is None else to_sweep(job.sweep),
    )


def _resizing(job: JobIn, kind: JobType) -> Resizing:
    """Return the resize mode: workers that answer requests are independent and can come and go."""
    asked = Resizing(job.resize)
    return Resizing.LIVE if kind is JobType.SERVE and asked is Resizing.AUTO else asked


def _run(job: JobIn) -> tuple[str, ...]:
    if job.train is not None:
        return train_argv(job.train)
    return argv(job.run) if job.serve is None else serve_argv(job.serve)


def argv(run: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the arguments: a command line runs in a shell; a list is the arguments themselves."""
    if run is None:
        return ()
    return (*SHELL, run) if isinstance(run, str) else tuple(run)


def train_argv(section: TrainIn) -> tuple[str, ...]:
    """Return the command of a `train:` section; the same section gives the same words, so that the job is
    recognized.
    """
    said = section.model_dump(mode="json", exclude_defaults=True)
    return (*TRAINER, json.dumps(said, sort_keys=True, ensure_ascii=False))


def default_name(job: JobIn) -> str:
    """Return a name for a job without one: the script's, else the program's, else the job's type."""
    if job.train is not None:
        return _as_name(section_name(job.train)) or job.type
    if job.serve is not None:
        return _as_name(serve_name(job.serve)) or job.type
    run = job.run
    if run is None and job.roles:
        run = next(iter(job.roles.values())).run
    words = run[:500].split() if isinstance(run, str) else list(run or ())[:20]
    for word in words:
        stem = os.path.basename(word[:200]).partition(".")[0].lower()
        if word.startswith("-") or "=" in word or _INTERPRETERS.fullmatch(os.path.basename(word)):
            continue
        return _as_name(stem) or job.type
    return job.type


def _as_name(text: str) -> str:
    """Return text as the name of a job; empty if no character can be kept."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63]
    return name if NAME.fullmatch(name) else ""


def _after(job: JobIn, known: Mapping[str, JobId]) -> tuple[tuple[JobId, ...], list[Mistake]]:
    ids = []
    mistakes = []
    for index, name in enumerate(job.after):
        if name in known:
            ids.append(known[name])
        elif looks_like_job_id(name):
            ids.append(JobId(name))
        else:
            mistakes.append(
                Mistake(f"after[{index}]", "must be the id of a job, or name an earlier stage", name)
            )
    return tuple(ids), mistakes


def _inputs(job: JobIn, known: Mapping[str, JobId]) -> tuple[tuple[Input, ...], list[Mistake]]:
    found = []
    mistakes = []
    for name, reference in job.inputs.items():
        whose, output = split_reference(reference)
        if whose in known:
            found.append(Input(name, known[whose], output))
        elif looks_like_job_id(whose):
            found.append(Input(name, JobId(whose), output))
        else:
            rule = "must be an output of a job by its id, or of an earlier stage"
            mistakes.append(Mistake(f"inputs.{name}", rule, reference))
    return tuple(found), mistakes


def _request(job: JobIn) -> tuple[Request, Launch]:
    if job.roles is not None:
        return _roles_request(job)
    if job.serve is not None:
        return _serve_request(job, job.serve)
    ask = parse_gpu(job.resources.gpu)
    sizes = tuple(sorted(job.resources.sizes or ()))
    count = _narrowed(ask.count, sizes)
    whole = not ask.sliced and count.high > 0
    replica = _replica(ask, 1 if whole else 0, job.resources)
    role = Role(WORKER, count if whole else Range(1, 1), replica)
    default = Launch.ONCE if count.rigid and job.train is None else Launch.PER_GPU
    launch = default if job.launch is None else Launch(job.launch)
    made = Request(
        (role,),
        () if count.rigid else sizes,
        one_node=launch is Launch.ONCE,
        shares=job.resources.share is not None,
        auto=ask.auto,
        ways=tuple(map(_way, job.resources.ways or ())),
        mixed=job.resources.mixed,
    )
    return made, launch


def _serve_request(job: JobIn, section: ServeIn) -> tuple[Request, Launch]:
    """Return the request of a serve job: `resources` apply to each replica."""
    ask = parse_gpu(job.resources.gpu)
    replica = _replica(ask, 0 if ask.sliced else ask.count.high, job.resources)
    return Request((Role(WORKER, parse_range(section.replicas), replica),)), Launch.PER_GPU


def _way(given: WayIn) -> Way:
    memory = 0 if given.memory is None else parse_bytes(given.memory)
    how = tuple(one.value for one in parse(given.how) if one is not Strategy.PLAIN)
    return Way(given.gpus, memory, how, given.speed)


def _roles_request(job: JobIn) -> tuple[Request, Launch]:
    roles = []
    sizes: tuple[int, ...] = ()
    for name, role in (job.roles or {}).items():
        ask = parse_gpu(role.resources.gpu)
        allowed = tuple(sorted(role.resources.sizes or ()))
        replicas = _narrowed(parse_range(role.replicas), allowed)
        sizes = sizes if replicas.rigid else allowed
        gpus = 0 if ask.sliced else ask.count.high
        replica = _replica(ask, gpus, role.resources)
        roles.append(
            Role(name, replicas, replica, argv(role.run), role.image or "", pod_template.text(role.pod))
        )
    mixed = any(role.resources.mixed for role in (job.roles or {}).values())
    return Request(tuple(roles), sizes, mixed=mixed), Launch.PER_GPU


def _narrowed(count: Range, sizes: tuple[int, ...]) -> Range:
    """Return a range whose ends are sizes that the job can use, according to `sizes`."""
    return Range(sizes[0], sizes[-1]) if sizes else count


def _replica(ask: GpuAsk, gpus: int, resources: ResourcesIn) -> Replica:
    times = max(gpus, 1)
    return Replica(
        gpus=gpus,
        share=ask.share,
        gpu_memory=ask.memory,
        types=ask.types,
        cpu=0 if resources.cpu is None else round(resources.cpu * 1000) * times,
        memory=0 if resources.memory is None else parse_bytes(resources.memory) * times,
    )


def _priority(value: str | int | None, kind: JobType) -> int:
    if value is None:
        return PRIORITIES[USUAL_PRIORITY[kind]]
    return PRIORITIES[value] if isinstance(value, str) else value


def _checkpoint(job: JobIn) -> Checkpoint:
    asked = job.checkpoint
    path = asked.path
    if path and job.workdir and not is_bundle(job.workdir):
        path = os.path.normpath(os.path.join(job.workdir, path))
    every = None if asked.every is None else parse_seconds(asked.every)
    return Checkpoint(path=path, grace=parse_seconds(asked.grace), every=every)


def _data(job: JobIn) -> tuple[str, ...]:
    """Resolve paths relative to the workdir; names stay as they are."""
    given = (job.data,) if isinstance(job.data, str) else tuple(job.data or ())
    if not job.workdir or is_bundle(job.workdir):
        return given
    return tuple(os.path.normpath(os.path.join(job.workdir, one)) if is_path(one) else one for one in given)


def idle_of(asked: IdleIn | None) -> Idle | None:
    """Return the idle policy of a job or of a queue."""
    if asked is None:
        return None
    return Idle(below=parse_percent(asked.below), seconds=parse_seconds(asked.for_), action=asked.action)


def _affinity(job: JobIn) -> Affinity:
    asked = job.affinity
    return Affinity(prefer=tuple(sorted(asked.prefer.items())), avoid_nodes=asked.avoid_nodes)
