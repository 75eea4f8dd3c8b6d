"""Job files: one document is one job, or with `stages:` several; several documents are one submission.

Every error of every document is reported at once, with its line. Stages name each other in `after` and in
`inputs`; they are returned in an order in which each comes after those that it names.
"""

import os.path
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from grus.api.inputs import workflow_dag, workflow_stages
from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import default_name
from grus.api.inputs.workflow_dag import Read
from grus.api.inputs.workflow_stages import JobDocument
from grus.api.parsing.validation_errors import Place, mistakes_of, shown
from grus.api.parsing.yaml_document import FILE, Document, read_documents
from grus.model.errors import BadInput, Mistake

_EMPTY = "is empty: it should say at least what to run, such as run: python train.py"
_NOT_A_JOB = "must be a mapping (key: value), such as run: python train.py"
_TEXTS = frozenset(
    {"name", "queue", "run", "setup", "after", "env", "workdir", "data", "image", "node_selector"}
    | {"inputs", "outputs", "when", "secrets"}
)


def parse_job_file(text: str | bytes, *, folder: str) -> list[JobIn]:
    """Return the jobs of a file in YAML (or JSON); raise BadInput with every error.

    They are in the order of the file, except for stages: each follows those that it names. `folder` is the
    file's own: `workdir` is relative to it, and it is the default workdir.
    Every job has a name and an absolute workdir afterwards.
    """
    return [job for job, _ in read_job_file(text, folder=folder)]


def read_job_file(text: str | bytes, *, folder: str) -> list[tuple[JobIn, JobDocument]]:
    """Return the jobs as `parse_job_file` does, each with the place at which it is written."""
    documents, mistakes = read_documents(text, is_text=_is_text)
    documents = [document for document in documents if document.value is not None]
    if not documents and not mistakes:
        raise BadInput([Mistake(FILE, _EMPTY)])
    parts = [part for document in documents for part in _parts(document, mistakes)]
    mistakes += workflow_stages.too_many(len(parts))
    read = [Read(part, _read(part, folder, mistakes)) for part in parts]
    mistakes += workflow_dag.mistakes(read)
    if mistakes:
        raise BadInput(sorted(mistakes, key=lambda mistake: mistake.line or 0))
    found = [(one.job, one.part) for one in read if one.job is not None]
    return [found[index] for index in workflow_dag.order([job for job, _ in found])]


def _is_text(place: Place) -> bool:
    """Return whether a place holds text, so that `1.10`, `1e-3` and `yes` stay as they are written."""
    if place[:1] == (workflow_stages.STAGES,):
        place = place[2:]
    if place[:1] == ("roles",):
        return place[2:3] in (("run",), ("image",))
    if place[:1] == ("affinity",):
        return len(place) > 1
    return bool(place) and place[0] in _TEXTS


def _parts(document: Document, mistakes: list[Mistake]) -> list[JobDocument]:
    if isinstance(document.value, Mapping):
        return workflow_stages.parts_of(document, mistakes)
    rule = f"{_NOT_A_JOB}; this is a list" if isinstance(document.value, list) else _NOT_A_JOB
    mistakes.append(Mistake(FILE, rule, shown(document.value), document.line_of(())))
    return []


def _read(part: JobDocument, folder: str, mistakes: list[Mistake]) -> JobIn | None:
    """Return the job of a part; None, with its errors added, if the part is no valid job."""
    if part.empty:
        return None
    try:
        job = JobIn.model_validate(part.value)
    except ValidationError as error:
        errors = [{**one, "loc": part.place_of(tuple(one["loc"]))} for one in error.errors(include_url=False)]
        known = {(mistake.field, mistake.line) for mistake in mistakes}
        found = mistakes_of(errors, line_of=part.document.line_of)
        mistakes += [mistake for mistake in found if (mistake.field, mistake.line) not in known]
        return None
    return job.model_copy(update=_filled(job, folder))


def _filled(job: JobIn, folder: str) -> dict[str, Any]:
    workdir = os.path.normpath(os.path.join(folder, os.path.expanduser(job.workdir)))
    return {"workdir": workdir, "name": job.name or default_name(job)}
