"""Converter of `BBJob` (Big Brain) to a GpuJob, and of the GpuJob's status back. Pure.

A BBJob names a model, data, a loss and an optimizer, and leaves everything else to the system: no image, no
command, no number of GPUs. The original defines the object and acts on none of it. Here the names are
arguments of `python3 -m grus.elastic.named`, which trains that model with Grus's elastic runtime on as many
GPUs as there are, up to a few. Annotations set more: `grus.dev/image` (one with torch and grus, else the
controller's own), `grus.dev/gpu` (such as `2..8`), `grus.dev/epochs`, `grus.dev/batch`, and `grus.dev/claim`,
a volume claim that is mounted where the data is.
"""

import os.path
import shlex
from typing import Any

from grus.kubernetes.install.custom_resources import GROUP
from grus.model.errors import Mistake
from grus.operator.foreign_jobs.gpujob import annotation, gpu_job, mirrored, wrong

Object = dict[str, Any]

KIND = "BBJob"
IMAGE = f"{GROUP}/image"
GPUS = f"{GROUP}/gpu"
EPOCHS = f"{GROUP}/epochs"
BATCH = f"{GROUP}/batch"
CLAIM = f"{GROUP}/claim"
USUAL_GPUS = "1..4"
_WORDS = ("model", "data", "loss", "optimizer")


def convert(source: Object, *, image: str) -> Object:
    """The GpuJob; `image` is the one to use where the object names none. Raises BadInput."""
    spec = source.get("spec") or {}
    if not spec.get("model"):
        raise wrong(Mistake("spec.model", "is needed: the name of a model, such as resnet50"))
    words = ["python3", "-m", "grus.elastic.named"]
    for name in _WORDS:
        if spec.get(name):
            words += [f"--{name}", str(spec[name])]
    for name, key in (("epochs", EPOCHS), ("batch", BATCH)):
        if written := annotation(source, key):
            words += [f"--{name}", written]
    return gpu_job(
        source,
        {
            "run": f"exec {shlex.join(words)}",
            "image": annotation(source, IMAGE, image),
            "launch": "per-gpu",
            "env": {"USER": "grus"},  # torch's compiler requires a user name; a random user id has none
            "resources": {"gpu": annotation(source, GPUS, USUAL_GPUS)},
            **_claim(source, str(spec.get("data") or "")),
        },
    )


def _claim(source: Object, data: str) -> Object:
    """The volume of the data, at the folder that the data's path names."""
    claim = annotation(source, CLAIM)
    if not claim:
        return {}
    folder = os.path.dirname(data)
    if folder in ("", "/"):
        raise wrong(Mistake("spec.data", f"must be a path in a folder where the claim {claim} can go", data))
    mount = {"name": "data", "mountPath": folder, "readOnly": True}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    return {"pod": {"spec": {"containers": [{"volumeMounts": [mount]}], "volumes": [volume]}}}


def status(job: Object) -> Object:
    return mirrored(job)
