"""Bugs in the lives of jobs: who acts, what an event means, when something is over, who is charged."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from grus.controlplane.jobs import apply_decision, lifecycle, user_actions
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.sweeps import sweep_controller
from grus.controlplane.sweeps.trial_index import Trials
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Event, WorkerStatus
from grus.model.jobs import Desired, Exit, ExitCause, Job, PauseCause, Phase
from grus.scheduler.decisions import Decision
from grus.scheduler.state import snapshot
from grus.store import rules
from tests.trust.bugs.planting import SEEDS, Bug, Swap, always, instead, issue
from tests.trust.bugs.planting import change as pull

STORM = "tests/controlplane/test_chaos.py"
CRASHES = "tests/controlplane/processes/test_crash.py"
AT_ANY_POINT = "test_a_crash_at_any_point_changes_nothing_in_the_end"


def of_whatever_attempt(hear: Any) -> Callable[[ClusterState, WorkerStatus], None]:
    """An event is known by its job and its worker's place in it, not by the attempt."""

    def planted(self: ClusterState, status: WorkerStatus) -> None:
        job = self.snapshot.job(status.job)
        if job is not None and job.attempt > status.attempt:
            rest = status.id.split(".", 2)[2]
            present = WorkerId(f"{job.id}.{job.attempt}.{rest}")
            status = replace(status, id=present, attempt=job.attempt)
        hear(self, status)

    return planted


def without_a_look_at_the_engine(_: Any) -> Callable[[ControlLoop, list[WorkerStatus]], list[WorkerStatus]]:
    return lambda _self, told: told


def whatever_came_last(_: Any) -> Callable[[ClusterState, WorkerStatus], None]:
    """What comes later is believed to have happened later."""

    def planted(self: ClusterState, status: WorkerStatus) -> None:
        self.workers.setdefault(status.job, {})[status.id] = status
        self.touched.add(status.job)

    return planted


def orphans_are_reset(open_: Any) -> Callable[[ControlLoop], None]:
    """A new control plane takes what was being started for never started."""

    def planted(self: ControlLoop) -> None:
        open_(self)
        for job in self._store.jobs(phases=[Phase.STARTING]):
            if job.spec.has_workers:
                text = "its start was not confirmed; it is started again"
                event = Event(at=self._clock(), kind="requeued", text=text, job=job.id, attempt=job.attempt)
                again = replace(job, phase=Phase.PENDING, seats=())
                self._store.replace(again, event, self.pulse.epoch).result()

    return planted


def charged_for_making_room(paused: Any) -> Callable[[Job, float, str], JobChange]:
    def planted(job: Job, now: float, text: str) -> JobChange:
        if job.paused_by is not PauseCause.SCHEDULER:
            return paused(job, now, text)  # type: ignore[no-any-return]  # the original
        failures = job.failures + 1
        failed = replace(job, failures=failures)
        if failures > job.spec.retries:
            exit_ = Exit(ExitCause.PREEMPTED, None, "evicted too often")
            return lifecycle._over(failed, Phase.FAILED, exit_, now, exit_.text)
        return paused(failed, now, text)  # type: ignore[no-any-return]  # as above

    return planted


def whoever_is_paused_waits(_: Any) -> Callable[[Job], bool]:
    return lambda job: job.phase in (Phase.PENDING, Phase.PAUSED) and job.desired is not Desired.STOP


def whatever_people_want(rule: Any) -> Callable[[Job, Decision, float], JobChange | None]:
    """A decision is carried out although somebody has paused the job meanwhile."""

    def planted(job: Job, decision: Decision, now: float) -> JobChange | None:
        change: JobChange | None = rule(replace(job, desired=Desired.RUN), decision, now)
        return change and replace(change, job=replace(change.job, desired=job.desired))

    return planted


def by_a_key_of_chance(_: Any) -> Callable[[JobId, int], str]:
    made: list[int] = []

    def planted(sweep: JobId, number: int) -> str:
        made.append(number)
        return f"trial\n{sweep}\n{number}\n{len(made)}"

    return planted


def without_the_ended(read: Any) -> Callable[[Any, Job], None]:
    """A search that is resumed knows of no trial that had ended."""

    def planted(self: Any, sweep: Job) -> None:
        read(self, sweep)
        with self._hearing:
            mine = self._jobs[sweep.id]
            for number in [number for number, trial in mine.items() if trial.terminal]:
                del mine[number]

    return planted


BUGS = (
    Bug(
        "hold-and-wait",
        "a gang that cannot come up whole keeps the GPUs that another waits for",
        issue("koordinator-sh/koordinator", 872),
        (Swap(lifecycle, "_never_up", always(None)),),
        (
            SEEDS,
            "tests/controlplane/reconciler/test_loop.py::test_a_gang_that_is_partly_up_is_undone_within_a_minute",
        ),
    ),
    Bug(
        "old-attempt",
        "the end of an earlier attempt is taken for that of the present one",
        issue("apache/airflow", 10790),
        (
            Swap(ClusterState, "hear", of_whatever_attempt),
            Swap(ControlLoop, "_believable", without_a_look_at_the_engine),
        ),
        (
            SEEDS,
            "tests/controlplane/reconciler/test_loop.py::test_late_events_of_an_old_attempt_change_nothing",
        ),
    ),
    Bug(
        "reordered-events",
        "an older state of a worker that comes late is believed",
        pull("kubernetes/kubernetes", 73845),
        (Swap(ClusterState, "hear", whatever_came_last),),
        (
            "tests/controlplane/reconciler/test_loop.py::test_a_late_word_that_a_worker_runs_does_not_bring_it_back",
        ),
    ),
    Bug(
        "no-fence",
        "a control plane that has lost its turn goes on writing",
        issue("kubernetes/kubernetes", 23731),
        (Swap(rules, "check_epoch", always(None)),),
        (
            SEEDS,
            "tests/store/test_memory.py::TestMemoryStore::test_an_earlier_epoch_is_fenced_and_writes_nothing",
        ),
    ),
    Bug(
        "released-alive",
        "GPUs are given away when their worker was told to end, not when it is dead",
        issue("kubernetes/kubernetes", 115844),
        (Swap(lifecycle, "_alive", always(False)),),
        (
            SEEDS,
            "tests/controlplane/reconciler/test_loop.py::test_gpus_are_given_away_only_when_their_worker_is_proven_dead",
        ),
    ),
    Bug(
        "started-twice",
        "what was being started when a control plane died is started once more beside it",
        issue("apache/airflow", 58570),
        (Swap(ControlLoop, "open", orphans_are_reset),),
        (
            SEEDS,
            f"{CRASHES}::{AT_ANY_POINT}[ordinary]",
        ),
    ),
    Bug(
        "terminal-left",
        "a job that has ended is taken up again",
        issue("openshift/origin", 17011),
        (
            Swap(rules, "check_phase", always(None)),
            Swap(user_actions, "_refuse_ended", always(None)),
        ),
        (
            SEEDS,
            "tests/controlplane/jobs/test_user_actions.py::test_a_wish_is_legal_repeatable_and_frees_nothing",
        ),
    ),
    Bug(
        "preemption-charged",
        "a job that made room for another has one retry less",
        issue("volcano-sh/volcano", 2560),
        (Swap(lifecycle, "_paused", charged_for_making_room),),
        (SEEDS, f"{CRASHES}::{AT_ANY_POINT}[reclaimed]"),
    ),
    Bug(
        "loss-charged",
        "the loss of a node counts as a failure of the job",
        pull("skypilot-org/skypilot", 1610),
        (Swap(lifecycle, "NEVER_CHARGED", instead(frozenset())),),
        (SEEDS, "tests/controlplane/jobs/test_lifecycle.py::test_states_of_two_workers"),
    ),
    Bug(
        "pause-ignored",
        "what a person has paused is started by the scheduler",
        issue("kubernetes-sigs/kueue", 6711),
        (
            Swap(snapshot, "waits", whoever_is_paused_waits),
            Swap(apply_decision, "rule", whatever_people_want),
        ),
        (
            SEEDS,
            "tests/controlplane/reconciler/test_loop.py::test_pause_and_resume_by_a_person",
        ),
    ),
    Bug(
        "no-back-off",
        "what failed is tried again at once, before anybody else",
        issue("kubernetes-sigs/kueue", 8),
        (
            Swap(lifecycle, "job_backoff", always(0.0)),
            Swap(lifecycle, "FIRST_BACK_OFF", instead(0.0)),
        ),
        (
            SEEDS,
            "tests/controlplane/jobs/test_lifecycle.py::test_a_charged_failure_beyond_the_retries_is_the_end_and_before_it_a_back_off",
        ),
    ),
    Bug(
        "trial-twice",
        "a search that is resumed runs trials again that had ended",
        issue("ray-project/ray", 14032),
        (
            Swap(sweep_controller, "key", by_a_key_of_chance),
            Swap(Trials, "_read", without_the_ended),
        ),
        (
            SEEDS,
            "tests/controlplane/sweeps/test_sweep_controller.py::test_nothing_is_made_twice_by_a_new_control_plane",
        ),
    ),
)
