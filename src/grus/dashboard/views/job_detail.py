"""One job as its page shows it: parts with names, each of plain values. Pure.

The page is made with all parts; afterwards its stream sends those that have changed. Moments are Unix
seconds, which the browser shows in its reader's time zone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grus.controlplane.eta.forecast_service import Expectation
from grus.controlplane.jobs import user_actions
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.security import rbac
from grus.controlplane.workers.worker_launch_spec import members
from grus.dashboard.views.job_timeline import Attempt, Strip
from grus.dashboard.views.sweep_search_data import params_words
from grus.model.activity_labels import Tag
from grus.model.errors import GrusError
from grus.model.identifiers import UserName, WorkerId
from grus.model.interfaces import Event, User, WorkerStatus
from grus.model.jobs import HOLDING, Desired, Job, JobType, Phase, resizes_live
from grus.model.resources import Range, replica_words
from grus.model.run_prediction import Expected
from grus.model.texts.formatting import number, progress, size, span
from grus.model.texts.job_text import request_text, run_text, status_word
from grus.model.texts.plural_words import counted
from grus.model.texts.units import gpu_number
from grus.scheduler.explain import Explanation
from grus.telemetry.samples import Measure, Sample

Part = Mapping[str, object]
BADGES = {
    Phase.PENDING: "pending",
    Phase.STARTING: "running",
    Phase.RUNNING: "running",
    Phase.PAUSING: "paused",
    Phase.PAUSED: "paused",
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.STOPPED: "stopped",
}
WISHES: Mapping[str, Callable[[Job, UserName, float], JobChange | None]] = {
    "pause": user_actions.pause,
    "resume": user_actions.resume,
    "stop": user_actions.stop,
}
LAB = ("grus.interactive.session", "lab")
"""End of the command of a session with a notebook."""
ALREADY = {
    "pause": "it is paused already",
    "resume": "it is not paused",
    "stop": "it is being stopped already",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPageData:
    """All that a page of a job is made of."""

    job: Job
    user: User
    now: float
    why: Explanation
    life: Strip
    attempts: tuple[Attempt, ...] = ()
    foreseen: Expectation | None = None
    tag: Tag | None = None
    expected: Expected | None = None
    workers: Sequence[WorkerStatus] = ()
    use: Mapping[WorkerId, Sample] | None = None
    """The newest figures of its workers; None where nothing is measured."""
    names: Mapping[str, str] | None = None
    """Names of the jobs that hold the GPUs that it waits for, by id."""
    logs: int = 0
    """Workers whose logs can be read."""


def parts(seen: JobPageData) -> dict[str, Part]:
    """Everything that may change while somebody looks, by part."""
    return {
        "texts": texts(seen),
        "moments": moments(seen),
        "buttons": buttons(seen.job, seen.user, seen.now),
        "scale": scale(seen.job),
        "why": why(seen),
        "strip": strip(seen.life),
        "attempts": {"rows": [attempt_row(one) for one in seen.attempts]},
        "workers": {"rows": worker_rows(seen), "logs": seen.logs},
    }


# --------------------------------------------------------------------------------------------------- texts


def fixed(job: Job) -> dict[str, object]:
    """Return the facts that never change in its life."""
    spec = job.spec
    return {
        "id": job.id,
        "name": spec.name,
        "user": job.user,
        "queue": spec.queue,
        "type": spec.type.value,
        "priority": str(spec.priority),
        "launch": spec.launch.value,
        "command": run_text(spec),
        "setup": "\n".join(spec.setup),
        "workdir": spec.workdir,
        "data": ", ".join(spec.data),
        "after": list(spec.after),
        "params": params_words(spec.params),
        "inputs": ", ".join(f"{one.name}: {one.output} of {one.job}" for one in spec.inputs),
        "outputs": ", ".join(f"{one.name} ({one.path})" if one.path else one.name for one in spec.outputs),
        "sweep": "" if spec.trial is None else spec.trial.sweep,
        "trial": "" if spec.trial is None else str(spec.trial.number),
        "graph": spec.graph,
        "image": spec.image,
    }


def texts(seen: JobPageData) -> dict[str, object]:
    """Words that stand somewhere on the page; an empty one hides its row."""
    job = seen.job
    status = status_word(job)
    return {
        "status": status,
        "badge": BADGES[job.phase],
        "gpus": number(gpu_number(job.held)),
        "asked": _asked(job),
        "nodes": ", ".join(dict.fromkeys(seat.node for seat in job.seats)),
        "attempt": _attempt(job),
        "team": _team(job),
        "guest": f"shares the GPU of {job.guest_of}" if job.guest_of and job.seats else "",
        "gets": _gets(job),
        "pauses": _pauses(job),
        "use": _percent(_mean_use(seen)),
        "memory": _memory(seen),
        "kind": _kind(seen.tag),
        "progress": ", ".join(progress(dict(job.progress))),
        "brief": _brief(job),
        "done": _done(job),
        "expected": expected_words(seen.expected),
        "exit": _exit(job),
        "unknown": "" if seen.foreseen is None else seen.foreseen.unknown,
        "summary": summary(seen.life, seen.attempts),
        "ended": "yes" if job.terminal else "",
        "paused": "yes" if job.desired is Desired.PAUSE else "",
        "loses": user_actions.loss_words(job),
        "number": str(job.attempt),
        "session": "yes" if _opens(job, seen.user) else "",
    }


def _opens(job: Job, user: User) -> bool:
    """Return whether it is a notebook that this user may open in a browser; a shell is for a terminal."""
    return job.spec.run[-2:] == LAB and job.user == user.name and job.phase is Phase.RUNNING


def _asked(job: Job) -> str:
    words = request_text(job.asked)
    return words + (f", scaled to {_size(job, job.size)}" if job.size is not None else "")


def _size(job: Job, size: Range) -> str:
    return replica_words(size) if job.spec.type is JobType.SERVE else str(size)


def _gets(job: Job) -> str:
    """Describe its size when it runs, and who chooses it."""
    if job.sizing is not None and job.sizing.why:
        return job.sizing.why
    role = job.spec.request.elastic
    if role is None:
        return f"{_asked(job)} GPU{'s' * (request_text(job.asked) != '1')}, no more and no fewer"
    how = "without a restart" if resizes_live(job) else "by saving and starting again"
    if job.spec.type is JobType.SERVE:
        return f"{replica_words(job.size or role.replicas)}, changed {how}"
    return f"{counted(_asked(job), 'GPU')}: as many as are free, changed {how}"


def _pauses(job: Job) -> str:
    if job.terminal:
        return ""
    return "no: its priority forbids it" if job.spec.never_preempted else "when others are due their share"


def _attempt(job: Job) -> str:
    if not job.attempt:
        return ""
    charged = f", {job.failures} of {job.spec.retries} retries used" if job.spec.retries else ""
    lost = f", {job.lost} lost worker{'s' * (job.lost != 1)} replaced" if job.lost else ""
    return f"{job.attempt}, generation {job.generation}{charged}{lost}"


def _team(job: Job) -> str:
    if not job.team or not job.seats:
        return ""
    joined = sum(seat.joined > 0 and not seat.leaving for seat in job.seats)
    coming = sum(not seat.joined and not seat.leaving for seat in job.seats)
    words = f"number {job.team}: {joined} worker{'s' * (joined != 1)}"
    return words + (f", {coming} on the way" if coming else "")


def _mean_use(seen: JobPageData) -> float | None:
    found = [
        sample.values[Measure.UTILISATION]
        for sample in (seen.use or {}).values()
        if Measure.UTILISATION in sample.values
    ]
    return sum(found) / len(found) if found and seen.job.phase in HOLDING else None


def _memory(seen: JobPageData) -> str:
    found = [
        sample.values[Measure.MEMORY]
        for sample in (seen.use or {}).values()
        if Measure.MEMORY in sample.values
    ]
    return size(sum(found)) if found and seen.job.phase in HOLDING else ""


def _kind(tag: Tag | None) -> str:
    if tag is None or tag.kind.value == "unknown":
        return ""
    words = tag.kind.value
    return words + (f", every {tag.period:.3g} s" if tag.period is not None else "")


def _brief(job: Job) -> str:
    """Describe its progress and loss: the part of its report that fits a tile."""
    words = progress(dict(job.progress))
    return ", ".join([*words[:1], *(word for word in words[1:] if word.startswith("loss"))])


def _done(job: Job) -> str:
    """0 to 1 as text, of a job that says how much there is to do."""
    said = dict(job.progress)
    total = said.get("total", 0.0)
    at = said.get("step", said.get("epoch"))
    return "" if at is None or total <= 0 else f"{min(1.0, max(0.0, at / total)):.4f}"


def _exit(job: Job) -> str:
    if job.exit is None or not job.terminal:
        return ""
    code = "" if job.exit.code is None else f" {job.exit.code}"
    return f"{job.exit.cause.value}{code}" + (f": {job.exit.text}" if job.exit.text else "")


def expected_words(told: Expected | None) -> str:
    """Describe earlier runs of similar jobs; empty if there were none."""
    if told is None:
        return ""
    words = []
    if told.duration is not None:
        words.append(f"about {span(told.duration)}")
    if told.memory is not None:
        words.append(f"at most {size(told.memory)} on a GPU")
    if told.utilisation is not None:
        words.append(f"{told.utilisation:.0%} in use")
    runs = "1 run" if told.runs == 1 else f"{told.runs} runs"
    return f"{', '.join(words)} (from {runs} before it)" if words else ""


def summary(life: Strip, attempts: Sequence[Attempt]) -> str:
    """The strip in a sentence, also for who cannot see it."""
    if not attempts:
        return "It has not run yet."
    running = sum(one.running for one in attempts)
    sizes = sum(len(one.sizes) for one in attempts)
    tries = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
    grew = f", {sizes} sizes" if sizes > len(attempts) else ""
    most = f", at most {number(life.top)} GPU{'s' * (life.top != 1)}" if life.top else ""
    return f"{tries}{grew}{most}; it ran for {span(running)} in all."


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


# ------------------------------------------------------------------------------------- moments and buttons


def moments(seen: JobPageData) -> dict[str, float | None]:
    job, foreseen = seen.job, seen.foreseen
    found = {
        "submitted": job.submitted_at,
        "started": job.first_started_at,
        "ended": job.ended_at,
        "saved": job.saved_at,
        "not_before": job.not_before if job.not_before > seen.now and job.phase is Phase.PENDING else None,
    }
    if foreseen is not None:
        found |= {
            "start_p50": foreseen.start_p50,
            "start_p90": foreseen.start_p90,
            "end_p50": foreseen.end_p50,
            "end_p90": foreseen.end_p90,
        }
    return found


def buttons(job: Job, user: User, now: float) -> dict[str, str]:
    """Return why each button cannot be pressed; empty if it can. The same rules as those of the services."""
    found = {name: _refusal(job, user, name, wish, now) for name, wish in WISHES.items()}
    may = _refusal(job, user, "change", _nothing, now)
    return {**found, "scale": _refusal(job, user, "scale", _other_size, now), "any": may}


def _nothing(job: Job, who: UserName, now: float) -> None:
    """Change nothing: the check is only whether this user may do anything to it."""


def _refusal(
    job: Job, user: User, name: str, wish: Callable[[Job, UserName, float], JobChange | None], now: float
) -> str:
    try:
        rbac.require_own(user, job, name)
        change = wish(job, user.name, now)
    except GrusError as refused:
        return str(refused)
    return "" if change is not None else ALREADY.get(name, "")


def _other_size(job: Job, who: UserName, now: float) -> JobChange | None:
    """Return the change by which a size can be requested; None if none can."""
    role = job.spec.request.elastic
    low = None if role is None else Range(role.replicas.low, role.replicas.low)
    return user_actions.scale(job, low, who, now)


def scale(job: Job) -> dict[str, object]:
    """Return the choices of the dialog for its size; empty for a job of a fixed size."""
    role = job.spec.request.elastic
    if role is None:
        return {}
    low, high = role.replicas.low, role.replicas.high
    return {
        "low": low,
        "high": high,
        "allowed": [size for size in job.spec.request.allowed if low <= size <= high],
        "set": "" if job.size is None else str(job.size),
        "now": len(job.staying),
    }


# ------------------------------------------------------------------------------------------ lists of things


def why(seen: JobPageData) -> dict[str, object]:
    found, names = seen.why, seen.names or {}
    status = status_word(seen.job)
    return {
        "sentence": sentence(found.sentence or seen.job.reason or f"it is {status}"),
        "change": found.change,
        "holders": [
            {"job": holder, "name": names.get(holder, ""), "gpus": number(gpu_number(amount))}
            for holder, amount in found.holders
        ],
        "notes": [sentence(note) for note in found.notes],
    }


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def strip(life: Strip) -> dict[str, object]:
    """Return stretches with times counted from the strip's beginning; `end` is None while the last one
    lasts.
    """
    begin = life.begin
    return {
        "begin": begin,
        "end": life.end,
        "top": life.top,
        "cut": life.cut,
        "losses": [{"at": round(one.at - begin, 3), "text": one.text} for one in life.losses],
        "stretches": [
            {
                "from": round(one.begin - begin, 3),
                "to": round(one.end - begin, 3)
                if life.end is not None or one is not life.stretches[-1]
                else None,
                "state": one.state.value,
                "attempt": one.attempt,
                "generation": one.generation,
                "gpus": one.gpus,
                "text": one.text,
            }
            for one in life.stretches
        ],
    }


def attempt_row(one: Attempt) -> dict[str, object]:
    return {
        "number": one.number,
        "begin": one.begin,
        "running": None if one.end is None else one.running,
        "sizes": " → ".join(number(size) for size in one.sizes),
        "outcome": one.outcome,
        "text": one.text,
    }


def worker_rows(seen: JobPageData) -> list[dict[str, object]]:
    """Return its present workers in the order of their numbers; those without a placement come last."""
    states = {status.id: status for status in seen.workers}
    rows = []
    for place, member in enumerate(members(seen.job)):
        status, seat = states.pop(member.id, None), member.seats[0]
        devices = dict.fromkeys(device for one in member.seats for device in one.devices)
        team = "leaving" if seat.leaving else f"team {seen.job.team}" if seat.joined else ""
        held = number(gpu_number(sum(one.held for one in member.seats)))
        rows.append(
            {
                **_worker(status, member.role),
                "number": place,
                "node": member.node,
                "gpus": held,
                "devices": ", ".join(device.rpartition("/")[2] for device in devices),
                "team": team,
                **_figures((seen.use or {}).get(member.id)),
            }
        )
    return rows + [_worker(status, status.id.split(".")[2]) for status in states.values()]


def _worker(status: WorkerStatus | None, role: str) -> dict[str, object]:
    if status is None:
        return {"role": role, "state": "not started yet"}
    end = "" if status.exit is None else f"{status.exit.cause.value} {status.exit.text}".strip()
    return {"role": role, "state": status.state.value, "pid": status.pid, "end": end}


def _figures(sample: Sample | None) -> dict[str, object]:
    if sample is None:
        return {}
    use, memory = sample.values.get(Measure.UTILISATION), sample.values.get(Measure.MEMORY)
    host, cores = sample.values.get(Measure.HOST_MEMORY), sample.values.get(Measure.CPU)
    return {
        "use": None if use is None else round(use, 2),
        "memory": "" if memory is None else size(memory),
        "host": "" if host is None else size(host),
        "cores": "" if cores is None else f"{cores:.1f}",
    }


def event_rows(events: Iterable[Event]) -> list[dict[str, object]]:
    return [
        {
            "seq": event.seq,
            "at": event.at,
            "kind": event.kind,
            "text": event.text,
            "attempt": event.attempt,
            "gpus": None if event.held is None else gpu_number(event.held),
        }
        for event in events
    ]
