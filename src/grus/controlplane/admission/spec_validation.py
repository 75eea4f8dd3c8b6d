"""Checks of a submitted spec that need neither store nor pool. Pure."""

from grus.model.artifacts import Input
from grus.model.errors import Mistake
from grus.model.interfaces import User
from grus.model.job_spec import is_bundle
from grus.model.jobs import Job, JobType, Spec
from grus.tuning import samplers

NO_SESSIONS = (
    "starts a development session, which a pool on Kubernetes cannot open: its server does not reach into"
    " pods. Run `grus dev` on a machine with its own Grus server, or submit a job with the same image and"
    " use kubectl exec"
)


def sweep_mistakes(spec: Spec, *, containers: bool) -> list[Mistake]:
    """Return reasons why a sweep cannot be created here."""
    if spec.sweep is None:
        return []
    if containers:
        rule = "is not available on Kubernetes yet: submit the trials as jobs of their own"
        return [Mistake("sweep", rule)]
    lacking = samplers.missing(spec.sweep.sampler)
    return [Mistake("sweep.sampler", lacking, spec.sweep.sampler)] if lacking else []


def container_mistakes(spec: Spec) -> list[Mistake]:
    """Return errors for features that only a pool on Kubernetes has."""
    rule = "is only for a pool on Kubernetes; here jobs run in their workdir, with their own PATH"
    said = [("", spec.image, spec.pod)]
    said += [(f"roles.{role.name}.", role.image, role.pod) for role in spec.request.roles]
    found = [Mistake(f"{at}image", rule, image) for at, image, _ in said if image]
    found += [Mistake(f"{at}pod", rule) for at, _, pod in said if pod]
    if is_bundle(spec.workdir):
        found.append(Mistake("workdir", rule, spec.workdir))
    return found


def cluster_mistakes(spec: Spec) -> list[Mistake]:
    """Return errors for features that a pool on Kubernetes lacks."""
    served = "serve is not available in a pool on Kubernetes yet: its server does not reach into pods"
    found = [Mistake("type", served, spec.type.value)] if spec.type is JobType.SERVE else []
    if spec.request.shares:
        rule = (
            "is not available in a pool on Kubernetes yet: a pod gets whole GPUs or a slice; ask for a slice"
            " (gpu: 0.5 or gpu: 12GB) instead"
        )
        found.append(Mistake("resources.share", rule, "auto"))
    if _is_session(spec):
        found.append(Mistake("run", NO_SESSIONS))
    rule = "are not for a pool on Kubernetes yet: hand data on through a volume (pod: {spec: {volumes: …}})"
    both = (("inputs", spec.inputs), ("outputs", spec.outputs))
    return found + [Mistake(name, rule) for name, there in both if there]


def _is_session(spec: Spec) -> bool:
    return spec.type is JobType.DEV and any("grus.interactive.session" in word for word in spec.run)


def input_problem(user: User, one: Input, job: Job | None) -> str:
    """Explain why this job cannot provide inputs; empty if it can."""
    if job is None:
        return "names no job"
    if job.user != user.name:
        return "is of another user: only what one's own jobs leave can be taken"
    names = [output.name for output in job.spec.outputs]
    if one.output not in names:
        return f"{job.spec.name} leaves no such output; " + (
            f"it leaves {', '.join(names)}" if names else "it has none"
        )
    return ""
