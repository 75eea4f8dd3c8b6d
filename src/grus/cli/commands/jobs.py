"""The verbs for jobs: hand one in, look at it, follow it, change what is wanted of it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli import env_options
from grus.cli.commands import profile_stats, workflow_stages
from grus.cli.connection import JobArgument, JobsArgument, complete_queue, connected, find_job
from grus.cli.follow import follow_job, follow_workflow
from grus.cli.render import job_eta
from grus.cli.render.output import (
    Format,
    Output,
    between,
    emit,
    emit_json,
    examples,
    for_people,
    hint,
    local,
    number,
    progress,
    say,
    table,
)
from grus.cli.whatif.auto_gpu_size import with_ways
from grus.model.errors import BadInput, GrusError, Mistake, NotFound
from grus.model.phases import HOLDING, TERMINAL, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grus.api.inputs.job_schema import JobIn
    from grus.api.wire_types.job import JobOut
    from grus.api.wire_types.workflow import GraphOut
    from grus.sdk.client import Client

PANEL = "Jobs"
SHOWN_FIGURES = 3
"""Number of a job's reported metrics that `ps` shows; `describe` shows all."""
COLUMNS = (
    *("ID", "NAME", "QUEUE", "USER", "PHASE", "GPUS"),
    *("AGE", "RAN", "START", "END", "PROGRESS", "DOES", "REASON"),
)
SHOWN_IF_TOLD = ("START", "END", "PROGRESS", "DOES")
"""Columns that are left out where no job has anything in them."""
All = Annotated[bool, typer.Option("--all", help="The output of all workers, each line behind its number.")]
StopOnInterrupt = Annotated[
    bool, typer.Option("--stop-on-interrupt", help="Ctrl-C stops the job without asking.")
]
LIVE = [phase.value for phase in Phase if phase not in TERMINAL]
Queue = Annotated[
    str, typer.Option("--queue", "-q", help="Name of the queue.", autocompletion=complete_queue)
]


def add_to(app: typer.Typer) -> None:
    for verb in (submit, run, ps, describe, why, logs, attach, stop, pause, resume, scale):
        app.command(rich_help_panel=PANEL, epilog=EXAMPLES[verb.__name__], no_args_is_help=False)(verb)


EXAMPLES = {
    "submit": examples("grus submit job.yaml", "grus submit job.yaml --plan", "cat job.yaml | grus submit -"),
    "run": examples("grus run -- python train.py", "grus run --gpu 2..8 -q vision -- python train.py"),
    "ps": examples(
        "grus ps", "grus ps --tree", "grus ps -a --mine", "grus ps --phase pending -q vision -o json"
    ),
    "describe": examples("grus describe resnet", "grus describe j4k -o json"),
    "why": examples("grus why resnet"),
    "logs": examples(
        "grus logs resnet",
        "grus logs resnet -f --worker 2",
        "grus logs gang --all",
        "grus logs j4k --tail 20",
        "grus logs j4k --attempt 1",
    ),
    "attach": examples("grus attach resnet"),
    "stop": examples("grus stop resnet", "grus stop j4k j9x --wait"),
    "pause": examples("grus pause resnet"),
    "resume": examples("grus resume resnet"),
    "scale": examples("grus scale resnet 4", "grus scale resnet 2..6", "grus scale resnet auto"),
}


# ----------------------------------------------------------------------------------------------- hand in


def submit(
    file: Annotated[Path, typer.Argument(help="Job file (YAML); - for standard input.", allow_dash=True)],
    plan: Annotated[bool, typer.Option("--plan", help="Say what would happen, and store nothing.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow all jobs of the file to their ends.")
    ] = False,
    key: Annotated[
        str, typer.Option(help="Name of this submission: the same one again submits nothing new.")
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run all stages, also those of which nothing has changed.")
    ] = False,
    code: Annotated[
        bool, typer.Option("--code/--no-code", help="With --kubernetes: send the workdir; else the image's.")
    ] = True,
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Find the memory of `gpu: auto` jobs first.")
    ] = True,
    env: env_options.Env = None,
    output: Output = Format.TABLE,
) -> None:
    """Submit the jobs of a file.

    The file has one document, or several stages. A job with `gpu: auto` is estimated first: its training is
    traced here, without a GPU.
    """
    documents = with_env(read_file(file), env_options.variables(env or []))
    if output is Format.TABLE:
        given = {name: value for one in documents for name, value in one.env.items()}
        env_options.tell(given, [name for one in documents for name in one.secrets])
    if not code:
        os.environ["GRUS_CODE"] = "image"
    with connected() as client:
        if estimate and code:
            documents = with_ways(client, documents)
        if plan:
            _show_plans(client, documents, output)
            return
        jobs = [handle.job for handle in client.submit_stages(documents, key=key or None, fresh=fresh)]
        emit(jobs if len(jobs) > 1 else jobs[0], output, lambda: _tell_submitted(client, jobs))
        if watch:
            quiet = output is Format.JSON
            alone = len(jobs) == 1
            raise typer.Exit(
                follow_job.to_the_end(client, jobs[0], quiet=quiet)
                if alone
                else follow_workflow.all_to_the_end(client, jobs, quiet=quiet)
            )


def read_file(file: Path) -> "list[JobIn]":
    from grus.api.inputs.yaml_job_file import parse_job_file
    from grus.api.parsing.yaml_document import LARGEST
    from grus.sdk.bounded_read import read_at_most

    try:
        text = read_at_most(file, LARGEST)
    except OSError as error:
        raise BadInput([Mistake(str(file), f"cannot be read: {error.strerror}")]) from None
    folder = Path.cwd() if str(file) == "-" else file.absolute().parent
    return parse_job_file(text, folder=str(folder))


def with_env(documents: "list[JobIn]", more: "dict[str, str]") -> "list[JobIn]":
    """The jobs with these variables added; they go before those of the file."""
    from grus.api.inputs.job_schema import JobIn
    from grus.api.parsing.validation_errors import read

    if not more:
        return documents
    return [
        read(JobIn, {**one.model_dump(exclude_unset=True), "env": {**one.env, **more}}) for one in documents
    ]


def _tell_submitted(client: "Client", jobs: "list[JobOut]") -> None:
    for job in jobs:
        say(f"{job.id}  {job.name}  in {job.queue}: {job.phase}" + (f" – {job.reason}" if job.reason else ""))
    for words in profile_stats.hints(client, [job.id for job in jobs]):
        say(f"expected of {words}")
    for job in jobs:
        _warn(job)
    if for_people():
        hint(f"next: grus logs -f {jobs[-1].id} · grus why {jobs[-1].id} · grus ps")


def _warn(job: "JobOut", *, attended: bool = False) -> None:
    """Print the warnings about a job; one that somebody watches may well have no checkpoint."""
    from grus.model.texts.job_warnings import NO_CHECKPOINT

    for text in job.warnings:
        if not attended or text != NO_CHECKPOINT:
            hint(f"warning: {job.name}: {text}")


def _show_plans(client: "Client", documents: "list[JobIn]", output: Format) -> None:
    from grus.api.inputs.workflow_dag import alone, behind

    names = {document.name or "" for document in documents}
    # The stages before it are not there yet: a plan says what it needs by itself.
    plans = [behind(client.plan(alone(one, names)), one, names) for one in documents]
    if output is Format.JSON:
        emit_json(plans if len(plans) > 1 else plans[0])
        return
    from grus.cli.render.job_details import show_plan

    for plan in plans:
        show_plan(client, plan)


def run(
    command: Annotated[list[str], typer.Argument(help="The command, after --.", metavar="-- COMMAND")],
    gpu: Annotated[str, typer.Option("--gpu", "-g", help="4 · 2..8 · 0.5 · 12GB · A100:2 · auto · 0")] = "1",
    estimate: Annotated[
        str,
        typer.Option(help="With --gpu auto: estimate by this function first.", metavar="train.py:make"),
    ] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow GPUs of unlike types in one gang.")] = False,
    queue: Queue = "default",
    name: Annotated[str, typer.Option("--name", "-n", help="Name; the command's by default.")] = "",
    kind: Annotated[
        str, typer.Option("--type", help="train, or dev (never preempted, inside quota).")
    ] = "train",
    launch: Annotated[str, typer.Option(help="once, per-gpu or per-node.")] = "",
    resize: Annotated[str, typer.Option(help="When its size changes: auto, live or restart.")] = "",
    cpu: Annotated[float | None, typer.Option(help="Cores per GPU.")] = None,
    memory: Annotated[str, typer.Option(help="Host memory per GPU, such as 32GB.")] = "",
    priority: Annotated[str, typer.Option(help="inference, dev, dev-preemptible, train, or a number.")] = "",
    retries: Annotated[int, typer.Option(help="How often to try again after a failure.")] = 0,
    checkpoint: Annotated[str, typer.Option(help="Folder of its checkpoints.")] = "",
    grace: Annotated[str, typer.Option(help="Time to save before it is ended, such as 30s.")] = "",
    max_runtime: Annotated[str, typer.Option(help="End it after this time, such as 2h.")] = "",
    env: env_options.Env = None,
    secret: env_options.Secret = None,
    data: Annotated[
        list[str] | None, typer.Option(help="What it works on, a path or a name; may be repeated.")
    ] = None,
    after: Annotated[list[str] | None, typer.Option(help="Start after this job has succeeded.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the id and leave it to itself.")
    ] = False,
    stop_on_interrupt: StopOnInterrupt = False,
    every: All = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the job's own output.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Run a command here and show its output.

    It runs in this folder and returns the command's exit code. Ctrl-C asks whether to leave the job running
    or to stop it; without a terminal to ask on, the job continues. Errors of Grus itself are 120 + their
    code.
    """
    from grus.api.inputs.job_schema import JobIn
    from grus.api.parsing.validation_errors import read

    resources = {"gpu": gpu, "mixed": mixed, "cpu": cpu, "memory": memory, "estimate": estimate}
    wanted = {
        "type": kind,
        "name": name,
        "queue": queue,
        "run": command,
        "launch": launch,
        "resize": resize,
        "resources": {key: value for key, value in resources.items() if value not in ("", None)},
        "priority": int(priority) if priority.isdigit() else priority,
        "retries": retries,
        "checkpoint": {key: value for key, value in (("path", checkpoint), ("grace", grace)) if value},
        "max_runtime": max_runtime,
        "env": env_options.variables(env or []),
        "secrets": env_options.secrets(secret or []),
        "workdir": os.getcwd(),
        "data": data,
    }
    with connected() as client:
        if after:
            wanted["after"] = [find_job(client, meant).id for meant in after]
        given = {key: value for key, value in wanted.items() if value not in ("", None, {})}
        (sized,) = with_ways(client, [read(JobIn, given)])
        if not quiet and output is Format.TABLE:
            env_options.tell(sized.env, sized.secrets)
        job = client.submit(sized).job
        if not quiet and output is Format.TABLE:
            _warn(job, attended=not detach)
        if detach:
            emit(job, output, lambda: say(job.id))
            return
        if not quiet:
            hint(f"[grus] {job.id} ({job.name}) submitted to {job.queue}")
        code = follow_job.to_the_end(
            client, job, quiet=quiet, every=every, stop_on_interrupt=stop_on_interrupt
        )
        if output is Format.JSON:
            emit_json(client.job(job.id))
        raise typer.Exit(code)


# --------------------------------------------------------------------------------------------------- look


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Ended ones too.")] = False,
    queue: Queue = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Only this user's.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only my own.")] = False,
    phase: Annotated[list[Phase] | None, typer.Option(help="Only these; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.")] = 100,
    tree: Annotated[
        bool, typer.Option("--tree", help="Stages below those that they come after, ended ones too.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """List jobs: the live ones, newest first."""
    wanted = [one.value for one in phase] if phase else [] if everything else LIVE
    with connected() as client:
        found = client.jobs(phases=wanted, queue=queue or None, mine=mine, limit=limit)
        if queue and not found and queue not in (known := [one.name for one in client.queues()]):
            raise NotFound(f"There is no queue {queue!r}; there are {', '.join(known)}.")
        jobs = [job for job in found if not user or job.user == user]
        graphs = workflow_stages.graphs_of(client, jobs) if tree else []
    if tree:
        emit(graphs, output, lambda: _list_rows(list(_tree_rows(graphs)), everything))
    else:
        emit(jobs, output, lambda: _list_rows([_row(job) for job in jobs], everything))


def _tree_rows(graphs: "list[GraphOut]") -> "Iterator[tuple[object, ...]]":
    for graph in graphs:
        for lines, stage in workflow_stages.branches(graph):
            id_, name, *rest = _row(stage.job)
            yield (id_, f"{lines}{name}{workflow_stages.also(graph, stage)}", *rest)


def _list_rows(rows: "list[tuple[object, ...]]", everything: bool) -> None:
    empty = "No jobs." if everything else "No live jobs. `grus ps -a` lists ended ones too."
    told = [
        heading not in SHOWN_IF_TOLD or any(row[at] for row in rows) for at, heading in enumerate(COLUMNS)
    ]
    keep = [at for at, shown in enumerate(told) if shown]
    table([COLUMNS[at] for at in keep], [[row[at] for at in keep] for row in rows], empty=empty)


def _row(job: "JobOut") -> tuple[object, ...]:
    return (
        job.id,
        job.name,
        job.queue,
        job.user,
        job.status,
        f"{number(job.gpus)} of {job.request}",
        between(job.submitted_at, None),
        between(job.first_started_at, job.ended_at),
        job_eta.start_words(None if job.phase in HOLDING else job.eta),
        job_eta.end_words(job.eta),
        ", ".join(progress(job.progress)[:SHOWN_FIGURES]),
        profile_stats.tag_words(job.tag),
        job.reason,
    )


def describe(job: JobArgument, output: Output = Format.TABLE) -> None:
    """Show a job's request, history, workers and events."""
    from grus.cli.render.job_details import describe_job

    with connected() as client:
        describe_job(client, find_job(client, job), output)


def why(job: JobArgument, output: Output = Format.TABLE) -> None:
    """Explain a job's state and the cheapest change.

    It shows the reason, the jobs that hold the GPUs that it waits for, and the cheapest change.
    """
    from grus.cli.render.job_details import show_why

    with connected() as client:
        found = find_job(client, job)
        answer = client.why(found.id)
        emit(answer, output, lambda: show_why(client, found, answer))


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    worker: Annotated[int | None, typer.Option(help="Number of the worker; 0 by default.", min=0)] = None,
    every: All = False,
    tail: Annotated[int | None, typer.Option(help="Only the last so many lines.", min=0)] = None,
    attempt: Annotated[int | None, typer.Option(help="Only this attempt; all by default.", min=1)] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print what a job wrote, in all its attempts."""
    from grus.cli.follow.job_logs import print_all_logs, print_log, report_copies

    if every and (worker is not None or tail is not None):
        raise BadInput([Mistake("--all", "is for whole logs of all workers: leave out --worker and --tail")])
    with connected() as client:
        found = find_job(client, job)
        if output is Format.TABLE:
            report_copies(client, found, follow=follow)
        if every:
            print_all_logs(client, found, attempt=attempt, follow=follow, output=output)
            return
        print_log(client, found, worker=worker, attempt=attempt, tail=tail, follow=follow, output=output)


def attach(
    job: JobArgument,
    stop_on_interrupt: StopOnInterrupt = False,
    every: All = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the job's own output.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Follow a job until it ends.

    Return the job's exit code. Ctrl-C asks what to do, as in `run`.
    """
    with connected() as client:
        found = find_job(client, job)
        known = max((event.seq for event in client.events(job=found.id)), default=0)
        code = follow_job.to_the_end(
            client, found, quiet=quiet, every=every, told=known, stop_on_interrupt=stop_on_interrupt
        )
        if output is Format.JSON:
            emit_json(client.job(found.id))
        raise typer.Exit(code)


# ------------------------------------------------------------------------------------------------- change


Wait = Annotated[bool, typer.Option("--wait", "-w", help="Return when it is done.")]


def stop(job: JobsArgument, wait: Wait = False, output: Output = Format.TABLE) -> None:
    """End jobs and all their processes.

    They are asked first; after their grace period everything that they started is killed.
    """
    _act("stop", job, output, set(TERMINAL) if wait else None)


def pause(
    job: JobsArgument,
    wait: Wait = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Pause jobs: they save and release their GPUs.

    `resume` continues them. A job without a checkpoint loses its work: a terminal asks first, elsewhere a
    warning is printed.
    """
    _act("pause", job, output, {Phase.PAUSED, *TERMINAL} if wait else None, None if yes else _confirm_loss)


def _confirm_loss(found: "list[JobOut]") -> None:
    """Warn of work that a pause would lose; on a terminal, ask. Ends the command if the answer is no."""
    for job in found:
        if job.saves or job.phase not in ("starting", "running"):
            continue
        since = local(job.started_at)
        hint(f"warning: {job.id} ({job.name}) has no checkpoint: a pause loses its work since {since}")
        if sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm("Pause it?", abort=True, err=True)


def resume(job: JobsArgument, wait: Wait = False, output: Output = Format.TABLE) -> None:
    """Resume paused jobs from their last checkpoint.

    They start when GPUs are free.
    """
    _act("resume", job, output, {Phase.RUNNING, *TERMINAL} if wait else None)


def scale(
    job: JobArgument,
    size: Annotated[str, typer.Argument(help="4 pins the size, 2..6 sets the range, auto goes back.")],
    output: Output = Format.TABLE,
) -> None:
    """Change the size of an elastic job."""
    from grus.cli.render.job_details import size_words

    with connected() as client:
        changed = client.scale(find_job(client, job).id, size)
        told = size_words(changed, size) if changed.size else size
        emit(changed, output, lambda: say(f"{changed.id} ({changed.name}): size {told}"))


def _act(
    verb: str,
    meant: list[str],
    output: Format,
    until: "set[Phase] | None",
    confirm: "Callable[[list[JobOut]], None] | None" = None,
) -> None:
    with connected() as client:
        found = [find_job(client, one) for one in meant]  # all are found before any is touched
        if confirm is not None:
            confirm(found)
        jobs, refused = _each(getattr(client, verb), found)
        if until is not None:
            jobs = [wait_for(client, job.id, until) for job in jobs]
        if jobs:
            emit(jobs if len(found) > 1 else jobs[0], output, lambda: _tell_changed(jobs))
        for error in refused[:-1]:
            hint(f"error: {error}")
        if refused:
            raise refused[-1]


def _each(act: "Callable[[str], JobOut]", found: "list[JobOut]") -> "tuple[list[JobOut], list[GrusError]]":
    """Apply the action to each job and return the results and the errors.

    A job that refuses (it may have ended meanwhile) does not block the others.
    """
    done: list[JobOut] = []
    refused: list[GrusError] = []
    for job in found:
        try:
            done.append(act(job.id))
        except GrusError as error:
            refused.append(error)
    return done, refused


def wait_for(client: "Client", job: str, phases: "set[Phase]") -> "JobOut":
    """The job once it is in one of the phases; every event of its own is a moment to look."""
    found = client.job(job)
    if found.phase in phases:
        return found
    for _ in client.watch(job=job, after=0):
        found = client.job(job)
        if found.phase in phases:
            break
    return found


def _tell_changed(jobs: "list[JobOut]") -> None:
    for job in jobs:
        say(f"{job.id} ({job.name}): {job.phase}" + (f" – {job.reason}" if job.reason else ""))
