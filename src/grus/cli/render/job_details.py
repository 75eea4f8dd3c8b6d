"""One job in full: what was asked, what became of it, why, its workers, its events, its log."""

from typing import TYPE_CHECKING

from grus.cli.commands import profile_stats
from grus.cli.render import job_eta
from grus.cli.render.output import (
    Format,
    between,
    emit_json,
    fields,
    for_people,
    hint,
    local,
    number,
    progress,
    say,
    size,
    table,
)
from grus.model.errors import GrusError
from grus.model.resources import replica_words
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.profile_wire import LearnedOut
    from grus.api.wire_types.job import EventOut, JobOut, PlanOut, WhyOut, WorkerOut
    from grus.sdk.client import Client


def describe_job(client: "Client", job: "JobOut", output: Format) -> None:
    why, workers, events = client.why(job.id), client.workers(job.id), client.events(job=job.id)
    known = _learned(client, job)
    if output is Format.JSON:
        emit_json({"job": job, "why": why, "workers": workers, "events": events, "learned": known})
        return
    _show_job(job, known)
    _heading("why")
    show_why(client, job, why)
    _show_workers(client, job, workers)
    _show_events(events)


def _heading(text: str) -> None:
    say()
    say(text if for_people() else f"{text}:", bold=for_people(), underline=for_people())


def _learned(client: "Client", job: "JobOut") -> "LearnedOut | None":
    try:
        return client.learned(job.id)
    except GrusError:
        return None  # a server that keeps no profiles


def _show_job(job: "JobOut", known: "LearnedOut | None") -> None:
    fields(
        (
            ("job", job.id),
            ("name", job.name),
            ("phase", job.status),
            ("type", job.type),
            ("queue", job.queue),
            ("user", job.user),
            ("command", job.run),
            ("launch", job.launch),
            ("asked for", _asked_words(job)),
            ("gets", _size_words(job)),
            (
                "holds",
                f"{counted(number(job.gpus), 'GPU')}" + (f" on {', '.join(job.nodes)}" if job.nodes else ""),
            ),
            ("priority", job.priority),
            ("after", ", ".join(job.after)),
            ("workdir", job.workdir),
            ("secrets", ", ".join(f"{variable} from {name}" for variable, name in job.secrets.items())),
            ("data", ", ".join(job.data)),
            (
                "sweep",
                "" if job.sweep is None else f"trial {job.trial} of {job.sweep}: {job.verdict or job.status}",
            ),
            ("params", ", ".join(f"{name} = {value}" for name, value in job.params.items())),
            ("takes", ", ".join(f"{name} ({whose})" for name, whose in job.inputs.items())),
            ("leaves", _left_words(job)),
            ("fingerprint", "" if known is None else known.fingerprint),
            ("expected", "" if known is None else profile_stats.expected_words(known.expected)),
            ("recognised", profile_stats.tag_sentence(job.tag)),
            ("submitted", local(job.submitted_at)),
            ("started", local(job.first_started_at)),
            ("ended", local(job.ended_at)),
            ("ran", between(job.first_started_at, job.ended_at)),
            ("will start", job_eta.start_sentence(job.eta)),
            ("will end", job_eta.end_sentence(job.eta)),
            ("attempt", f"{job.attempt} (failures charged: {job.failures} of {job.retries} allowed)"),
            ("team", _team_words(job)),
            ("checkpoint", local(job.saved_at) if job.saves else "none: a pause restarts it from zero"),
            ("not before", local(job.not_before)),
            ("progress", ", ".join(progress(job.progress))),
            ("exit", _exit_words(job)),
        )
    )


def _left_words(job: "JobOut") -> str:
    """Its outputs, with what they are once they are kept."""
    kept = {one.name: f"{one.name} ({size(one.size)}, {one.digest[:12]})" for one in job.artefacts}
    return ", ".join(kept.get(name, name) for name in job.outputs)


def _asked_words(job: "JobOut") -> str:
    words = job.asked or job.unscaled or job.request
    words = words if words.endswith("auto") else counted(words, "GPU")
    return words + (f", scaled to {size_words(job, job.size)}" if job.size else "")


def size_words(job: "JobOut", size: str) -> str:
    """Return the size after scaling in words: replicas for a served model."""
    return replica_words(size) if job.type == "serve" else size


def _size_words(job: "JobOut") -> str:
    """The size that Grus chose, and why."""
    return job.sizing or job.request if job.asked else ""


def _team_words(job: "JobOut") -> str:
    """Describe the worker group: its size, the workers lost, and the cost of the last change, as far as
    known.
    """
    size = sum(seat.joined for seat in job.seats)
    waiting = sum(not seat.joined and not seat.leaving for seat in job.seats)
    words = [f"number {job.team}: {size} worker{'s' * (size != 1)}"] if job.team else []
    words += [f"{waiting} on the way"] if job.team and waiting else []
    words += [f"{job.lost} lost and replaced"] if job.lost else []
    stall, redone = job.progress.get("stall"), job.progress.get("redone")
    if job.team and stall is not None:
        words.append(f"stood still for {stall:.2f} s at the last change")
    if job.team and redone is not None:
        words.append(f"{redone:.0f} step{'s' * (redone != 1)} redone")
    return ", ".join(words)


def _exit_words(job: "JobOut") -> str:
    if job.exit is None:
        return ""
    code = f" {job.exit.code}" if job.exit.code is not None else ""
    return f"{job.exit.cause}{code}" + (f": {job.exit.text}" if job.exit.text else "")


def show_why(client: "Client", job: "JobOut", why: "WhyOut") -> None:
    say(why.sentence or job.reason or f"{job.name} is {job.status}.")
    if why.holders:
        names = _names(client, [holder.job for holder in why.holders])
        say("held by: " + ", ".join(f"{names[one.job]} {number(one.gpus)}" for one in why.holders))
    if why.change:
        say(f"to start it now: {why.change}")
    for note in why.notes:
        say(note)
    for sentence in job_eta.sentences(why.eta):
        say(sentence)


def show_plan(client: "Client", plan: "PlanOut") -> None:
    say(plan.sentence)
    fields(
        (
            ("gets", plan.sizing),
            ("starts", plan.starts),
            ("launch", plan.launch),
            ("on", ", ".join(plan.nodes)),
            ("will start", job_eta.start_sentence(plan.eta) if plan.starts == "later" else ""),
            ("will end", job_eta.end_sentence(plan.eta)),
            ("expected", profile_stats.expected_words(plan.expected)),
            ("sooner", plan.change),
        )
    )
    for text in plan.warnings:
        hint(f"warning: {text}")
    if plan.affected:
        names = _names(client, [one.job for one in plan.affected])
        table(("JOB", "WHAT", "WHY"), [(names[one.job], one.action, one.reason) for one in plan.affected])


def _names(client: "Client", ids: list[str]) -> dict[str, str]:
    """`name (id)` of each, or the id alone where it cannot be seen."""
    found = {}
    for one in ids:
        try:
            found[one] = f"{client.job(one).name} ({one})"
        except GrusError:
            found[one] = one
    return found


def _show_workers(client: "Client", job: "JobOut", workers: "list[WorkerOut]") -> None:
    if not workers:
        return
    use = {one.worker: one for one in client.usage() if one.job == job.id}
    rows = []
    for worker in workers:
        used = use.get(worker.id)
        share = "" if used is None or used.gpu_utilisation is None else f"{used.gpu_utilisation:.0%}"
        end = "" if worker.exit is None else f"{worker.exit.cause} {worker.exit.text}".strip()
        memory = "" if used is None else size(used.memory)
        rows.append(
            ("" if worker.number is None else worker.number, worker.role, worker.attempt, worker.state,
             worker.pid or "", share, memory, end)
        )  # fmt: skip
    _heading("workers")
    table(("N", "ROLE", "ATTEMPT", "STATE", "PID", "GPU", "MEMORY", "END"), rows)


def _show_events(events: "list[EventOut]") -> None:
    _heading("events")
    table(("TIME", "ATTEMPT", "EVENT", "WHAT"), [(local(e.at), e.attempt, e.kind, e.text) for e in events])
