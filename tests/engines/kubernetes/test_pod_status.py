"""What a pod says of its worker: start, life and end, and why."""

import pytest

from grus.engines.kubernetes import pod_status
from grus.engines.kubernetes.pod_status import LAST_WORD, STUCK, Moments, PodState
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import KILL_AT, OVER, READ, SAID, VERDICT
from grus.model.interfaces import WorkerState
from grus.model.jobs import Exit, ExitCause
from tests.engines.kubernetes.builders import a_worker_pod, terminated

NOW = 1_800_000_000.0
STARTED = 1_767_225_610.0
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:10Z"}}
WAITING = {"waiting": {"reason": "PodInitializing"}}
DELETED = "2026-01-01T00:01:00Z"


def look(pod: Object, moments: Moments | None = None, gone: str = "") -> PodState:
    return pod_status.view(pod, moments or Moments(), NOW, gone)


def end_of(pod: Object) -> Exit:
    """How it ended, once all was said."""
    pod["metadata"]["annotations"][READ] = "true"
    status = look(pod).status
    assert status.state is WorkerState.ENDED
    assert status.exit is not None
    return status.exit


def ended(phase: str, code: int = 0, *, notes: dict[str, str] | None = None, **more: str) -> Object:
    return a_worker_pod(phase=phase, state=terminated(code, **more), notes=notes or {})


def deleted(pod: Object, grace: int = 0) -> Object:
    pod["metadata"] |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": grace}
    return pod


def test_a_worker_starts_until_its_own_container_runs() -> None:
    assert look(a_worker_pod(phase="Pending")).status.state is WorkerState.STARTING
    pod = a_worker_pod(phase="Pending", state=WAITING, first={"running": {}})
    assert look(pod).status.state is WorkerState.STARTING
    status = look(a_worker_pod(state=RUNNING)).status
    assert (status.state, status.started_at, status.exit) == (WorkerState.RUNNING, STARTED, None)


def test_who_speaks_runs_although_its_kubelet_has_not_said_so_yet() -> None:
    status = look(a_worker_pod(phase="Pending", state=WAITING, notes={SAID: "ready"})).status
    assert (status.state, status.said) == (WorkerState.RUNNING, "ready")


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (0, "Completed", Exit(ExitCause.DONE, 0, "")),
        (3, "Error", Exit(ExitCause.CODE, 3, "exit code 3")),
        (137, "Error", Exit(ExitCause.SIGNAL, 9, "killed by signal 9 (SIGKILL)")),
        (255, "Error", Exit(ExitCause.CODE, 255, "exit code 255")),
    ],
)
def test_the_end_of_a_worker_is_what_it_was(code: int, reason: str, expected: Exit) -> None:
    assert end_of(ended("Failed" if code else "Succeeded", code, reason=reason)) == expected


def test_the_kernels_killing_for_memory_is_told_from_other_kills() -> None:
    assert end_of(ended("Failed", 137, reason="OOMKilled")).cause is ExitCause.MEMORY


def test_a_command_that_is_not_there_could_not_start() -> None:
    found = end_of(ended("Failed", 128, reason="StartError", message='exec: "nope": not found'))
    assert (found.cause, found.text) == (ExitCause.START, 'exec: "nope": not found')


def test_what_prepares_a_worker_and_fails_tells_why() -> None:
    pod = a_worker_pod(phase="Failed", state=WAITING, first=terminated(1, message="a broken bundle\n"))
    assert end_of(pod) == Exit(ExitCause.START, None, "prepare: a broken bundle")


def test_after_a_request_to_stop_every_end_is_a_stop_with_its_code() -> None:
    asked = {KILL_AT: "1800000000"}
    assert end_of(deleted(ended("Succeeded", 0, notes=asked))).code == 0
    assert end_of(ended("Failed", 143, notes=asked)) == Exit(ExitCause.STOPPED, 143, "ended by SIGTERM")
    assert end_of(ended("Failed", 137, notes=asked)).cause is ExitCause.STOPPED
    never_ran = deleted(a_worker_pod(phase="Pending", notes=asked))
    assert end_of(never_ran) == Exit(ExitCause.STOPPED, None, "stopped before it started")


def test_a_pod_that_somebody_else_deletes_is_lost_even_if_it_ends_in_order() -> None:
    assert end_of(deleted(ended("Succeeded", 0))).cause is ExitCause.LOST


def test_a_deleted_pod_has_not_ended_while_its_kubelet_has_not_let_go() -> None:
    asked = {KILL_AT: "1800000000"}
    waiting = deleted(a_worker_pod(state=RUNNING, notes=asked), grace=30)
    assert look(waiting).status.state is WorkerState.RUNNING
    forced = deleted(a_worker_pod(state=RUNNING, notes=asked), grace=0)
    assert look(forced).status.state is WorkerState.RUNNING


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        ("OutOfnvidia.com/gpu", "Node didn't have enough resource", ExitCause.LOST),
        ("UnexpectedAdmissionError", "Allocate failed", ExitCause.LOST),
        ("Evicted", "The node was low on resource: memory.", ExitCause.LOST),
        ("Evicted", "Pod ephemeral local storage usage exceeds the total limit", ExitCause.MEMORY),
        ("DeadlineExceeded", "", ExitCause.TIME),
        ("AppArmor", "Cannot enforce AppArmor", ExitCause.START),
    ],
)
def test_what_a_kubelet_does_to_a_whole_pod_is_told_in_its_words(
    reason: str, message: str, cause: ExitCause
) -> None:
    found = end_of(a_worker_pod(phase="Failed", reason=reason, message=message))
    assert found.cause is cause
    assert reason in found.text
    assert message in found.text


def test_an_end_that_nobody_saw_is_a_loss() -> None:
    unseen = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    assert end_of(a_worker_pod(phase="Failed", state=unseen)).cause is ExitCause.LOST


def test_an_end_that_nobody_saw_after_a_request_to_stop_has_no_code() -> None:
    unseen = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    found = end_of(a_worker_pod(phase="Failed", state=unseen, notes={KILL_AT: "1800000000"}))
    assert (found.cause, found.code) == (ExitCause.STOPPED, None)


def test_the_last_word_is_waited_for_but_not_for_ever() -> None:
    pod = ended("Succeeded")
    first = look(pod)
    assert (first.status.state, first.again) == (WorkerState.RUNNING, NOW + LAST_WORD)
    later = pod_status.view(pod, first.moments, NOW + LAST_WORD, "")
    assert later.status.state is WorkerState.ENDED


def test_a_pod_that_grus_did_not_make_has_no_last_word() -> None:
    pod = ended("Succeeded")
    pod["spec"]["volumes"] = []
    assert look(pod).status.state is WorkerState.ENDED


def test_a_worker_on_a_node_that_is_gone_is_lost_at_once_unless_it_had_ended() -> None:
    lost = look(a_worker_pod(state=RUNNING), gone="its node is gone").status
    assert (lost.state, lost.exit) == (WorkerState.ENDED, Exit(ExitCause.LOST, None, "its node is gone"))
    done = look(ended("Succeeded"), gone="its node is gone").status
    assert done.exit == Exit(ExitCause.DONE, 0, "")


@pytest.mark.parametrize("reason", sorted(STUCK))
def test_who_cannot_start_is_ended_with_the_kubelets_words_once_it_is_no_passing_trouble(reason: str) -> None:
    pod = a_worker_pod(phase="Pending", state={"waiting": {"reason": reason, "message": "no such thing"}})
    before = look(pod)
    assert (before.doomed is None) == (STUCK[reason] > 0)
    after = pod_status.view(pod, before.moments, NOW + STUCK[reason], "")
    assert after.doomed == Exit(ExitCause.START, None, "no such thing")
    assert after.status.state is WorkerState.STARTING


def test_trouble_that_passed_is_forgotten() -> None:
    pod = a_worker_pod(phase="Pending", state={"waiting": {"reason": "ErrImagePull"}})
    stuck = look(pod).moments
    assert look(a_worker_pod(phase="Pending", state=WAITING), stuck).moments.stuck is None


def test_who_takes_more_than_its_slice_is_ended_for_it_whoever_reads_the_end() -> None:
    over = {OVER: "used 3 GB, more than its slice"}
    found = look(a_worker_pod(state=RUNNING, notes=over)).doomed
    assert found == Exit(ExitCause.GPU_MEMORY, None, "used 3 GB, more than its slice")
    marked = {**over, KILL_AT: "1800000000", VERDICT: pod_status.verdict(found)}
    assert end_of(ended("Failed", 137, notes=marked)) == found
    assert look(a_worker_pod(state=RUNNING, notes=marked)).doomed is None


def test_a_log_that_ends_with_a_lack_of_gpu_memory_explains_a_bad_end_only() -> None:
    tail = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
    failed = Exit(ExitCause.CODE, 1, "exit code 1")
    assert pod_status.with_log(failed, tail) == Exit(
        ExitCause.GPU_MEMORY, 1, "the log ends with a CUDA out-of-memory error"
    )
    assert pod_status.with_log(failed, b"something else") == failed
    done = Exit(ExitCause.DONE, 0, "")
    assert pod_status.with_log(done, tail) == done


def test_of_a_pod_that_vanished_the_last_sight_counts() -> None:
    assert pod_status.removed(a_worker_pod(state=RUNNING)).cause is ExitCause.LOST
    assert pod_status.removed(a_worker_pod(state=RUNNING, notes={KILL_AT: "1"})).cause is ExitCause.STOPPED
    assert pod_status.removed(ended("Succeeded")).cause is ExitCause.DONE
