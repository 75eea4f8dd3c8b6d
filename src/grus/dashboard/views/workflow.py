"""Content of the page of a workflow: the drawing, and the state of each stage. Pure."""

from grus.controlplane.admission.workflow_graph import Graph
from grus.controlplane.admission.workflow_graph import WorkflowStage as Member
from grus.dashboard.views.job_detail import BADGES
from grus.dashboard.views.workflow_dag_layout import Drawing, StageNode, drawing
from grus.model.jobs import Job, Phase
from grus.model.texts.formatting import number, span
from grus.model.texts.job_text import status_word
from grus.model.texts.units import gpu_number


def drawn(graph: Graph) -> Drawing:
    """The stages in the order of their submission."""
    return drawing([StageNode(one.job.id, one.job.spec.name, one.after) for one in graph.stages])


def parts(graph: Graph, now: float) -> dict[str, object]:
    """Return the parts that may change while somebody looks."""
    return {"stages": [standing(one, now) for one in graph.stages], "summary": summary(graph)}


def standing(stage: Member, now: float) -> dict[str, object]:
    job, status = stage.job, status_word(stage.job)
    return {
        "id": job.id,
        "state": BADGES[job.phase],
        "status": status,
        "words": _words(job, now),
        "why": job.reason,
        "earlier": stage.earlier,
    }


def _words(job: Job, now: float) -> str:
    """Return the details beside its state."""
    if job.same_as is not None:
        return "unchanged"
    if job.seats:
        gpus = gpu_number(job.held)
        held = f"{number(gpus)} GPU{'s' * (gpus != 1)}, " if gpus else ""
        return f"{held}{span(now - (job.first_started_at or now))}"
    if job.ended_at is not None and job.first_started_at is not None:
        return span(job.ended_at - job.first_started_at)
    return ""


def summary(graph: Graph) -> str:
    """All of it in a sentence, also for who cannot see the drawing."""
    jobs = [one.job for one in graph.stages]
    counts = {
        "succeeded": sum(job.phase is Phase.SUCCEEDED for job in jobs),
        "failed": sum(job.phase is Phase.FAILED for job in jobs),
        "stopped": sum(job.phase is Phase.STOPPED for job in jobs),
        "under way": sum(bool(job.seats) and not job.terminal for job in jobs),
        "paused": sum(job.phase is Phase.PAUSED and not job.seats for job in jobs),
        "pending": sum(job.phase is Phase.PENDING and not job.seats for job in jobs),
    }
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(jobs)} stage{'s' * (len(jobs) != 1)}: {words}"
