"""The workload of a comparison: one job of a job file, as every environment runs it.

A comparison keeps everything but the environment constant. So the job has one size (no range, no `auto`), one
process that is started (it may start more itself, as `torchrun` does) and its code in one folder that can
travel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.api.parsing.yaml_document import LARGEST
from grus.model.errors import BadInput, Mistake
from grus.model.texts.units import parse_gpu
from grus.sdk.bounded_read import read_at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job, with what drivers ask of it at hand. `job` has the rest (memory, pod, node_selector, queue)."""

    name: str
    argv: tuple[str, ...]
    setup: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    folder: Path
    """Location of its code on this machine."""
    data: tuple[str, ...]
    """Paths among what it works on; names that are no paths are left out."""
    gpus: int
    gpu_type: str
    """Empty for any."""
    image: str
    """Empty for none: the environment's own interpreter is used."""
    limit: float | None
    """Seconds that it may run."""
    job: JobIn


def read(path: Path) -> Workload:
    """Read the workload of a job file; raises BadInput with every error."""
    try:
        text = read_at_most(path, LARGEST)
    except OSError as error:
        raise BadInput([Mistake("job file", f"cannot be read: {error.strerror}", str(path))]) from None
    return of(parse_job_file(text, folder=str(path.absolute().parent)))


def of(jobs: Sequence[JobIn]) -> Workload:
    """The workload that the only job of a file is; raises BadInput with every reason why it is none."""
    mistakes = _mistakes(jobs)
    if mistakes:
        raise BadInput(mistakes)
    job = jobs[0]
    spec, ask = to_spec(job), parse_gpu(job.resources.gpu)
    # As written: what is relative to the code travels with it, and is looked for beside it there.
    named = (job.data,) if isinstance(job.data, str) else job.data or ()
    return Workload(
        name=spec.name,
        argv=spec.run,
        setup=spec.setup,
        env=spec.env,
        folder=Path(spec.workdir),
        data=tuple(one for one in named if "/" in one),
        gpus=ask.count.high,
        gpu_type="".join(ask.types),
        image=spec.image or "",
        limit=spec.max_runtime,
        job=job,
    )


def _mistakes(jobs: Sequence[JobIn]) -> list[Mistake]:
    if len(jobs) != 1:
        rule = f"must have one job: a comparison runs one workload, and this file has {len(jobs)}"
        return [Mistake("job file", rule)]
    job = jobs[0]
    found = []
    if job.roles is not None:
        found.append(Mistake("roles", "cannot be compared: write one command that starts all its processes"))
    elif job.train is not None and _several(job):
        found.append(Mistake("train", "is compared on one GPU only: it has a worker for each"))
    elif job.launch in ("per-gpu", "per-node"):
        rule = "must be once: the command itself starts its workers (torchrun), the same way everywhere"
        found.append(Mistake("launch", rule, job.launch))
    if job.roles is None:
        found += _size_mistakes(job)
    if job.after:
        found.append(Mistake("after", "cannot be waited for here: compare one job at a time"))
    if not Path(job.workdir).is_dir():
        found.append(Mistake("workdir", "must be a folder on this machine", job.workdir))
    return found


def _several(job: JobIn) -> bool:
    ask = parse_gpu(job.resources.gpu)
    return ask.auto or ask.count.high > 1


def _size_mistakes(job: JobIn) -> list[Mistake]:
    ask, given = parse_gpu(job.resources.gpu), str(job.resources.gpu)
    if ask.auto or not ask.count.rigid:
        return [Mistake("resources.gpu", "must be one number: another size is another workload", given)]
    if ask.sliced:
        rule = "must be whole GPUs: a slice is made differently in every environment"
        return [Mistake("resources.gpu", rule, given)]
    if len(ask.types) > 1:
        return [Mistake("resources.gpu", "must name one type of GPU at most: another is another node", given)]
    return []
