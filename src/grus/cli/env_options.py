"""Environment variables of a job on the command line: `-e NAME=VALUE`, `-e NAME`, `--secret`.

A job sees little of the caller's environment. Variables that programs of the field read and that are not
passed on are named, so that their absence is no surprise.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from grus.cli.render.output import hint
from grus.model.errors import BadInput, Mistake

Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="NAME=VALUE, or NAME to copy mine; may be repeated."),
]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", help="Variable from a secret: HF_TOKEN, or HF_TOKEN=name; may be repeated."),
]
SHOWN = 8
_OF_THE_FIELD = re.compile(
    r"(?:HF|HUGGINGFACE|TRANSFORMERS|DIFFUSERS|ACCELERATE|DATASETS|WANDB|MLFLOW|COMET|NEPTUNE|CLEARML|OPENAI|ANTHROPIC"
    r"|NCCL|GLOO|TORCH|PYTORCH|CUDA|TF|XLA|JAX|OMP|MKL|TOKENIZERS|KAGGLE|AWS|AZURE|GOOGLE|S3)_[A-Z0-9_]+"
    r"|LD_LIBRARY_PATH|PYTHON(?:PATH|HASHSEED|WARNINGS)|CUBLAS_WORKSPACE_CONFIG",
    re.ASCII,
)
"""Variables that trainings read: of frameworks, trackers, hubs, clouds and numerical libraries."""


def variables(texts: Iterable[str]) -> dict[str, str]:
    """The variables that `-e` names; one that is not set here is left out, and named."""
    given = [text.partition("=") for text in texts]
    if wrong := [name for name, _, _ in given if not name]:
        raise BadInput([Mistake("env", "is written NAME=VALUE, or NAME to copy yours") for _ in wrong])
    if unset := [name for name, equals, _ in given if not equals and name not in os.environ]:
        hint(f"[grus] left out, because not set here: {', '.join(unset)}")
    return {
        name: value if equals else os.environ[name]
        for name, equals, value in given
        if equals or name in os.environ
    }


def secrets(texts: Iterable[str]) -> dict[str, str]:
    """The secrets that `--secret` names, by variable."""
    from grus.api.inputs.secrets import secret_name

    pairs = [text.partition("=") for text in texts]
    return {variable: name or secret_name(variable) for variable, _, name in pairs}


def not_passed_on(environ: Mapping[str, str], given: Iterable[str]) -> list[str]:
    """Variables of the caller that trainings read and that this job will not see."""
    from grus.api.parsing.fields import SET_BY_GRUS

    seen = {*given, *SET_BY_GRUS}
    return sorted(name for name in environ if _OF_THE_FIELD.fullmatch(name) and name not in seen)


def tell(env: Mapping[str, str], named: Iterable[str] = ()) -> None:
    """Name what is dropped, and what would better be a secret; `named` are secrets of the job."""
    from grus.api.inputs.secrets import looks_secret, secret_name

    if dropped := not_passed_on(os.environ, [*env, *named]):
        more = f" and {len(dropped) - SHOWN} more" if len(dropped) > SHOWN else ""
        hint(f"[grus] not passed on from this shell: {', '.join(dropped[:SHOWN])}{more}; -e NAME copies one")
    for name in sorted(name for name in env if looks_secret(name)):
        hint(
            f"[grus] warning: {name} looks like a secret, and env is part of the job's record; "
            f"`grus secret set {secret_name(name)}`, then secrets: [{name}] (or --secret {name})"
        )
