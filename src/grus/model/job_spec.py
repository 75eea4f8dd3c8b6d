"""Rules of a job's specification: its code, its data, its launch and its size. Pure."""

from dataclasses import replace

from grus.model.jobs import Launch, Spec
from grus.model.resources import Range
from grus.model.saving import SECTION
from grus.model.texts.units import parse_gpu

MOST_STAGES = 200
"""Maximum number of stages of one submission, in any notation."""
TRAINER = ("python3", "-m", SECTION)
"""Command of a job with a `train:` section; the section follows it."""
BUNDLE = "bundle:"
"""Prefix of a workdir that is code in the cluster, by its hash."""


def is_bundle(workdir: str) -> bool:
    """Return whether it names code that was uploaded to the cluster, and not a folder."""
    return workdir.startswith(BUNDLE)


def with_launch(spec: Spec, launch: Launch) -> Spec:
    """Return the same job, launched in another way. A job with roles always has one worker per replica,
    regardless of `launch`.
    """
    if not spec.run:
        return spec
    return replace(spec, launch=launch, request=replace(spec.request, one_node=launch is Launch.ONCE))


def resized(spec: Spec, gpu: str | int | float) -> Spec:
    """Return the same job without roles of its own, with other GPUs: `gpu` as in `resources`, fixed or a
    range.
    """
    ask = parse_gpu(gpu)
    role = spec.request.roles[0]
    whole = not ask.sliced and ask.count.high > 0
    replica = replace(
        role.replica,
        gpus=1 if whole else 0,
        share=ask.share,
        gpu_memory=ask.memory,
        types=ask.types or role.replica.types,
    )
    made = replace(role, replicas=ask.count if whole else Range(1, 1), replica=replica)
    return replace(spec, request=replace(spec.request, roles=(made,)))


def is_path(data: str) -> bool:
    """Return whether data is a path on this machine; anything else is a name (`imagenet-2012`, `s3://…`)."""
    return "/" in data and "://" not in data
