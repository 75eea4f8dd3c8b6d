"""The Submit page: a job file as text, what would become of it while one writes, and the submission."""

import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.workflow_dag import alone, behind
from grus.api.inputs.workflow_stages import JobDocument
from grus.api.inputs.yaml_job_file import read_job_file
from grus.api.parsing.validation_errors import Place
from grus.api.parsing.yaml_document import LARGEST
from grus.api.wire_types.job import PlanOut
from grus.controlplane.facade.services import Services
from grus.dashboard.page_rendering import page
from grus.dashboard.views.job_examples import EXAMPLES
from grus.model.errors import BadInput, Mistake, NotAllowed
from grus.model.interfaces import User
from grus.model.jobs import Job
from grus.model.texts.job_text import request_text
from grus.server.http.dependencies import Does, Who, answer, off_loop
from grus.server.routes.jobs import LONGEST_KEY

router = APIRouter(include_in_schema=False)

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class FileIn(BaseModel):
    """A job file as it stands in the page."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=LARGEST)]
    folder: Annotated[str, Field(max_length=4096)] = ""
    """Base of its relative paths, on the machine that runs the jobs."""
    key: Annotated[str, Field(max_length=LONGEST_KEY - 10)] = ""
    """One submission for each: sent again, it finds the jobs of the first time."""


class PlannedOut(BaseModel):
    """Plan of one job of the file."""

    name: str
    queue: str
    request: str
    plan: PlanOut


class MistakeOut(BaseModel):
    field: str
    rule: str
    value: str = ""
    line: int | None = None


class PlansOut(BaseModel):
    """The plans of a file's jobs, or the reasons why there are none. While the user types, both are normal
    answers.
    """

    jobs: list[PlannedOut] = []
    mistakes: list[MistakeOut] = []
    refused: str = ""


class SubmittedOut(BaseModel):
    id: str
    name: str


class SubmissionOut(BaseModel):
    jobs: list[SubmittedOut]


@router.get("/submit")
async def form(request: Request, user: Who, does: Does) -> Response:
    queues = await off_loop(does.queues.settings, user)
    above = {queue.parent for queue in queues}
    return page(
        request,
        "submit.html",
        examples=EXAMPLES,
        folder=does.submission.home(user),
        queues=[queue.name for queue in queues if queue.name not in above],
    )


@router.post("/submit/plan")
async def plan(file: FileIn, user: Who, does: Does) -> Response:
    """Plan each job; nothing is stored. Every error has its line."""
    try:
        found = PlansOut(jobs=await off_loop(_plans, file, user, does))
    except BadInput as error:
        wrong = [MistakeOut(field=m.field, rule=m.rule, value=m.value, line=m.line) for m in error.mistakes]
        found = PlansOut(mistakes=wrong)
    except NotAllowed as error:
        found = PlansOut(refused=str(error))
    return answer(found)


@router.post("/submit", status_code=201)
async def submit(file: FileIn, user: Who, does: Does) -> Response:
    """All jobs of the file, in their order. One that would be refused keeps all of them from being stored."""
    await off_loop(_plans, file, user, does)
    stored = await off_loop(_stored, file, user, does)
    found = [SubmittedOut(id=job.id, name=job.spec.name) for job in stored]
    return answer(SubmissionOut(jobs=found), 201)


# ------------------------------------------------------------------------------------------------ reading


def _stored(file: FileIn, user: User, does: Services) -> list[Job]:
    jobs = [job for job, _ in read(file)]
    key = file.key or None
    if len(jobs) > 1 or jobs[0].outputs:
        return does.workflows.submit(user, jobs, key=key)
    (job,) = jobs
    return [does.actions.submit(user, to_spec(job), key=key, launch_given=job.launch_given).result()]


def read(file: FileIn) -> list[tuple[JobIn, JobDocument]]:
    """Return the jobs of the file, and their places in it. Raises BadInput with every error."""
    if file.folder and not os.path.isabs(file.folder):
        raise BadInput([Mistake("folder", "must be an absolute path, such as /home/ada/work", file.folder)])
    jobs = read_job_file(file.text, folder=file.folder)
    return [(job.model_copy(update=_from_here(job)), part) for job, part in jobs]


def _from_here(job: JobIn) -> dict[str, object]:
    """Return the defaults that a command line on the same machine would add: no folder, and the Python that
    has Grus.
    """
    found: dict[str, object] = {}
    if job.workdir == os.curdir:  # neither the job nor the page names a folder
        found["workdir"] = ""
    if job.train is not None and "PATH" not in job.env:
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        found["env"] = {**job.env, "PATH": path}
    return found


# ----------------------------------------------------------------------------------------------- planning


def _plans(file: FileIn, user: User, does: Services) -> list[PlannedOut]:
    jobs = read(file)
    names = {job.name or "" for job, _ in jobs}
    mistakes: list[Mistake] = []
    found = []
    for job, part in jobs:
        # The stages before it are not there yet: a plan says what it needs by itself.
        try:
            found.append(_planned(job, names, user, does))
        except BadInput as error:
            mistakes += _with_lines(error.mistakes, part)
    if mistakes:
        raise BadInput(mistakes)
    return found


def _planned(job: JobIn, names: Collection[str], user: User, does: Services) -> PlannedOut:
    spec = to_spec(alone(job, names))
    found = PlanOut.from_model(does.actions.plan(user, spec, launch_given=job.launch_given))
    made = behind(found, job, names)
    return PlannedOut(name=spec.name, queue=spec.queue, request=request_text(spec.request), plan=made)


def _with_lines(mistakes: Sequence[Mistake], part: JobDocument) -> list[Mistake]:
    """Return the services' errors, at the line of the faulty text (or of the part that contains it)."""
    return [one if one.line is not None else _placed(one, part) for one in mistakes]


def _placed(one: Mistake, part: JobDocument) -> Mistake:
    place = place_of(one.field)
    return replace(one, field=part.field(place), line=part.line_of(place))


def place_of(field: str) -> Place:
    """`after[0]` and `resources.gpu` as places in a document."""
    return tuple(int(number) if number else name for name, number in _PART.findall(field))
