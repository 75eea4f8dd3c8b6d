"""Job files: one document is one job, several are the stages of one submission.

Every mistake of every document is told at once, with its line. A stage may name earlier ones in `after`.
"""

import os.path
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from grus.api.document import FILE, Document, read_documents
from grus.api.job_in import JobIn
from grus.api.job_spec import default_name, looks_like_job_id
from grus.api.rules import Place, mistakes_of, shown
from grus.model.errors import BadInput, Mistake

_EMPTY = "is empty: it should say at least what to run, such as run: python train.py"
_NOT_A_JOB = "must be a mapping (key: value), such as run: python train.py"
_TEXTS = frozenset(
    {"name", "queue", "run", "setup", "after", "env", "workdir", "data", "image", "node_selector"}
)


def parse_job_file(text: str | bytes, *, folder: str) -> list[JobIn]:
    """The jobs of a file in YAML (or JSON), in their order; raises BadInput with every mistake.

    `folder` is the file's own: `workdir` is relative to it, and it is the workdir of a job that names none.
    Every job has a name and an absolute workdir afterwards.
    """
    documents, mistakes = read_documents(text, is_text=_is_text)
    documents = [document for document in documents if document.value is not None]
    if not documents and not mistakes:
        raise BadInput([Mistake(FILE, _EMPTY)])
    read = [_read(document, folder, mistakes) for document in documents]
    mistakes += _stage_mistakes(documents, read)
    if mistakes:
        raise BadInput(sorted(mistakes, key=lambda mistake: mistake.line or 0))
    return [job for job in read if job is not None]


def _is_text(place: Place) -> bool:
    """Places that hold text, so that `1.10`, `1e-3` and `yes` stay as they are written."""
    if place[:1] == ("roles",):
        return place[2:3] in (("run",), ("image",))
    if place[:1] == ("affinity",):
        return len(place) > 1
    return bool(place) and place[0] in _TEXTS


def _read(document: Document, folder: str, mistakes: list[Mistake]) -> JobIn | None:
    """The job of a document; None, and its mistakes added, if it is none."""
    if not isinstance(document.value, Mapping):
        rule = f"{_NOT_A_JOB}; this is a list" if isinstance(document.value, list) else _NOT_A_JOB
        mistakes.append(Mistake(FILE, rule, shown(document.value), document.line_of(())))
        return None
    try:
        job = JobIn.model_validate(document.value)
    except ValidationError as error:
        known = {(mistake.field, mistake.line) for mistake in mistakes}
        found = mistakes_of(error.errors(include_url=False), line_of=document.line_of)
        mistakes += [mistake for mistake in found if (mistake.field, mistake.line) not in known]
        return None
    return job.model_copy(update=_filled(job, folder))


def _filled(job: JobIn, folder: str) -> dict[str, Any]:
    workdir = os.path.normpath(os.path.join(folder, os.path.expanduser(job.workdir)))
    return {"workdir": workdir, "name": job.name or default_name(job)}


def _stage_mistakes(documents: list[Document], read: list[JobIn | None]) -> list[Mistake]:
    """`after` names an earlier stage of the file, or is an id; no two stages have one name."""
    names = [_name(document, job) for document, job in zip(documents, read, strict=True)]
    found = []
    for index, (document, job) in enumerate(zip(documents, read, strict=True)):
        name = names[index]
        if job is not None and "name" in document.value and name in names[:index]:
            first = documents[names.index(name)].line_of(("name",))
            rule = f"is the name of another stage of this file (line {first}): choose another"
            found.append(Mistake("name", rule, name, document.line_of(("name",))))
        for position, wanted in enumerate(job.after if job is not None else ()):
            if problem := _after_problem(wanted, names, index):
                place = ("after", position)
                found.append(Mistake(f"after[{position}]", problem, wanted, document.line_of(place)))
    return found


def _name(document: Document, job: JobIn | None) -> str:
    if job is not None:
        return job.name or ""
    # A stage with mistakes is still named: those who come after it are not wrong too.
    name = document.value.get("name") if isinstance(document.value, Mapping) else None
    return name if isinstance(name, str) else ""


def _after_problem(wanted: str, names: list[str], index: int) -> str:
    if wanted in names[:index] or looks_like_job_id(wanted):
        return ""
    if wanted == names[index]:
        return "names the job itself"
    if wanted in names[index + 1 :]:
        return "names a later stage: stages stand in the order in which they may start"
    return "names no earlier stage of this file, and is not the id of a job"
