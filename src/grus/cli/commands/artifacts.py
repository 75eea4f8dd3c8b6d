"""`grus artefacts`: list and fetch the artifacts of jobs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import complete_job, connected, find_job
from grus.cli.render.output import Format, Output, emit, examples, for_people, hint, say, size, table
from grus.model.errors import BadInput, Mistake, NotFound

if TYPE_CHECKING:
    from grus.api.wire_types.job import ArtefactOut, JobOut
    from grus.sdk.client import Client

artefacts = typer.Typer(no_args_is_help=True, help="What jobs left behind: list it, get it.")
LOOKED_AT = 500
"""Number of jobs, newest first, that are searched for artifacts to list."""
EVERY = 50_000_000
"""Bytes between two lines of progress."""

JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="Name, id or the beginning of one.", autocompletion=complete_job)
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(artefacts, name="artefacts", rich_help_panel="Jobs")


@artefacts.command("ls", epilog=examples("grus artefacts ls", "grus artefacts ls train -o json"))
def ls(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="Only this one's.", autocompletion=complete_job)
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """List what jobs left behind, newest first."""
    with connected() as client:
        jobs = [find_job(client, job)] if job else client.jobs(limit=LOOKED_AT)
    found = [(one, artefact) for one in jobs for artefact in one.artefacts]
    rows = [
        {"job": one.id, "job_name": one.name, "user": one.user, **_row(artefact)} for one, artefact in found
    ]
    emit(rows, output, lambda: _list(found))


def _row(artefact: "ArtefactOut") -> dict[str, object]:
    return {"output": artefact.name, "digest": artefact.digest, "size": artefact.size}


def _list(found: "list[tuple[JobOut, ArtefactOut]]") -> None:
    rows = [(job.id, job.name, one.name, size(one.size), one.digest[:12]) for job, one in found]
    empty = "Nothing was left behind: a job says what it leaves under `outputs`."
    table(["JOB", "NAME", "OUTPUT", "SIZE", "CONTENT"], rows, empty=empty)


@artefacts.command(
    "get", epilog=examples("grus artefacts get train model .", "grus artefacts get j4k data ./data")
)
def get(
    job: JobName,
    name: Annotated[str, typer.Argument(metavar="OUTPUT", help="Which of its outputs.")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder for its files; a single file goes into it.")
    ],
    output: Output = Format.TABLE,
) -> None:
    """Copy a job's artifact here.

    Started again, an interrupted copy resumes.
    """
    with connected() as client:
        found = find_job(client, job)
        artefact = next((one for one in found.artefacts if one.name == name), None)
        if artefact is None:
            names = ", ".join(one.name for one in found.artefacts) or "nothing"
            raise NotFound(
                f"{found.name} ({found.id}, {found.status}) has left {names} behind, and no {name!r}."
            )
        made = _get(client, found, artefact, folder)
    told = {"job": found.id, "output": name, "digest": artefact.digest, "path": str(made)}
    emit(told, output, lambda: say(f"{made}: {size(artefact.size)}, {artefact.digest[:12]}"))


def _get(client: "Client", job: "JobOut", artefact: "ArtefactOut", folder: Path) -> Path:
    from grus.artifacts.archive import unpack
    from grus.artifacts.cache import remove_tree

    target = folder.absolute()
    near = target if target.is_dir() else target.parent
    if not near.is_dir():
        raise BadInput([Mistake("FOLDER", "must be in a folder that is there", str(folder))])
    tar, fresh = near / f".grus-{artefact.digest[:16]}.tar", near / f".grus-{artefact.digest[:16]}"
    with tar.open("ab") as file:
        client.download(job.id, artefact.name, file, _progress(artefact.size))
    remove_tree(fresh)
    try:
        with tar.open("rb") as file:
            names = unpack(file, fresh, artefact.digest)
        single = len(names) == 1 and (fresh / names[0]).is_file()
        made = _place(fresh / names[0] if single else fresh, target, single=single)
    finally:
        remove_tree(fresh)
        tar.unlink(missing_ok=True)
    return made


def _place(source: Path, target: Path, *, single: bool) -> Path:
    """Move it to where it belongs; what is there is never written over."""
    place = target / source.name if single else target
    if single:
        target.mkdir(exist_ok=True)
    if place.exists() and (single or not place.is_dir() or any(_others(place))):
        raise BadInput([Mistake("FOLDER", "is there already, and is not written over", str(place))])
    if not single and place.is_dir():  # empty, and perhaps where we are: filled, not replaced
        for one in source.iterdir():
            one.rename(place / one.name)
    else:
        os.rename(source, place)
    return place


def _others(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".grus-")]


def _progress(total: int) -> Callable[[int], None]:
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        if for_people() and done - told >= EVERY:
            told = done
            hint(f"[grus] {size(done)} of {size(total)}")

    return tell
