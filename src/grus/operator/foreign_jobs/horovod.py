"""`ElasticHorovodJob` (Alnair) as a GpuJob, and the status of that as the status of the first. Pure.

The original runs a launcher with `horovodrun` and workers with `sshd`, one GPU each, and expects the secret
`horovod-sshkeys` and the config map `ai-horovod-discover-hosts` in the namespace. Where they are, so do we
(a role each, one gang). Where they are not, each worker runs the Python command itself, and `import
horovod.torch` finds Grus's elastic runtime: no launcher, no SSH, no root; the image has to have grus.

`targetReplicas` pins the size; without it the scheduler chooses between min and max, all the time. The
original counted the GPUs of its own namespace only, never grew a job again, and could go above max.
"""

import shlex
from typing import Any

from grus.api.inputs.pod_template import text
from grus.kubernetes.install.custom_resources import GROUP
from grus.model.errors import Mistake
from grus.operator.foreign_jobs.gpujob import annotation, gpu_job, mirrored, wrong

Object = dict[str, Any]

KIND = "ElasticHorovodJob"
CHOICE = f"{GROUP}/horovod"
"""Annotation: `run` for the image's own horovodrun, `front` for Grus's runtime."""
RUN, FRONT = "run", "front"
KEYS = "horovod-sshkeys"
SSH_PORT = 12345
RETRIES = 1
"""Retries, as many as the original's launcher has."""


def convert(source: Object, *, prepared: bool) -> Object:
    """The GpuJob; `prepared`: whether its namespace has what horovodrun needs. Raises BadInput."""
    spec = source.get("spec") or {}
    launcher, workers = spec.get("launcherSpec") or {}, spec.get("workersSpec") or {}
    low, high = _range(workers)
    chosen = annotation(source, CHOICE) or (RUN if prepared else FRONT)
    if chosen not in (RUN, FRONT):
        raise wrong(Mistake(f"metadata.annotations[{CHOICE}]", f"must be {RUN} or {FRONT}", chosen))
    command = " ".join(launcher.get("pythonCommand") or ())
    if not command.strip():
        raise wrong(Mistake("spec.launcherSpec.pythonCommand", "is needed: the command to run"))
    made = (
        _with_launcher(launcher["image"], workers["image"], command, low, high)
        if chosen == RUN
        else _with_front(workers["image"], command, low, high)
    )
    return gpu_job(source, {**made, "retries": RETRIES, **pinned(source)})


def pinned(source: Object) -> Object:
    """Return `replicas` if a size is requested: the only field that is followed while the job runs."""
    workers = (source.get("spec") or {}).get("workersSpec") or {}
    target = workers.get("targetReplicas")
    if not target:
        return {}
    low, high = _range(workers)
    return {"replicas": min(max(target, low), high)} if low < high else {}


def status(job: Object) -> Object:
    """The fields of the original, and ours beside them."""
    told = mirrored(job)
    replicas = (job.get("status") or {}).get("replicas") or 0
    return {"availableReplicas": replicas, "launcher": told["job"], "workers": told["job"], **told}


def _range(workers: Object) -> tuple[int, int]:
    """Return the range: at least one worker; without a maximum as many as the minimum, or the target."""
    given = workers.get("minReplicas"), workers.get("maxReplicas"), workers.get("targetReplicas")
    low = max(1, given[0] or 0)
    high = given[1] if given[1] is not None else max(low, given[2] or 0)
    if given[0] is None and given[1] is None and given[2]:
        low = high = given[2]
    if high < low:
        raise wrong(
            Mistake("spec.workersSpec.maxReplicas", f"must be at least minReplicas, {low}", str(high))
        )
    return low, high


def _count(low: int, high: int) -> int | str:
    return low if low == high else f"{low}..{high}"


# ------------------------------------------------------------------------------------------ Grus's runtime

_SHELL = frozenset(";&|()\n")


def _with_front(image: str, command: str, low: int, high: int) -> Object:
    # A plain command replaces the shell, so that it receives SIGTERM itself.
    last = command if _SHELL & set(command) else f"exec {command}"
    lines = (
        "names=$(python3 -m grus.elastic.adapters.horovod_names) || { echo 'This image has no grus-gpu-sdk:"
        f" pip install grus-gpu-sdk[torch] there, or annotate the job with {CHOICE}={RUN} to use its"
        " horovodrun.' >&2; exit 127; }",
        'export PYTHONPATH="$names${PYTHONPATH:+:$PYTHONPATH}"',
        last,
    )
    return {
        "run": "\n".join(lines),
        "image": image,
        "env": {"USER": "grus"},  # torch's compiler requires a user name; a random user id has none
        "launch": "per-gpu",
        "resources": {"gpu": _count(low, high)},
    }


# ---------------------------------------------------------------------------------------------- horovodrun

_SSH = "mkdir -p ~/.ssh && cp /etc/secrets/* ~/.ssh/ && chmod 700 ~/.ssh && chmod 600 ~/.ssh/*"
_DISCOVER = (
    "#!/bin/sh",
    'getent ahostsv4 "grus-$GRUS_JOB" | while read -r address rest; do',
    '  [ "$address" = "$GRUS_HOST" ] || echo "$address:1"',
    "done | sort -u",
)
"""Every address of the job's headless service but the launcher's own: the workers, with one GPU each."""


def _with_launcher(launcher: str, worker: str, command: str, low: int, high: int) -> Object:
    script = shlex.quote("\n".join(_DISCOVER))
    ready = f"until [ $(/tmp/discover_hosts.sh | wc -l) -ge {low} ]; do sleep 1; done"
    horovodrun = f"exec horovodrun -p {SSH_PORT} -np {low} --min-np {low} --max-np {high}"
    lines = (
        _SSH,
        f"echo {script} > /tmp/discover_hosts.sh && chmod +x /tmp/discover_hosts.sh",
        ready,
        f"{horovodrun} --host-discovery-script /tmp/discover_hosts.sh {command}",
    )
    return {
        "roles": {
            "launcher": {"run": "\n".join(lines), "image": launcher, "resources": {"gpu": 0}, "replicas": 1},
            "worker": {
                "run": f"{_SSH} && exec /usr/sbin/sshd -D -e -p {SSH_PORT}",
                "image": worker,
                "resources": {"gpu": 1},
                "replicas": _count(low, high),
            },
        },
        "resize": "live",
        "pod": _pod(),
    }


def _pod() -> Object:
    """Return the pod overrides for the keys; an sshd that allows root logins has to be root."""
    return {
        "spec": {
            "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
            "containers": [
                {
                    "securityContext": {
                        "runAsUser": 0,
                        "runAsNonRoot": False,
                        "capabilities": {"add": ["SYS_CHROOT", "SETUID", "SETGID", "AUDIT_WRITE"]},
                    },
                    "volumeMounts": [
                        {"name": "sshkeys", "mountPath": "/etc/secrets", "readOnly": True},
                    ],
                }
            ],
            "volumes": [
                {"name": "sshkeys", "secret": {"secretName": KEYS, "defaultMode": 0o400}},
            ],
        }
    }


SSH_POD = text(_pod())
"""The same as a job keeps it."""
