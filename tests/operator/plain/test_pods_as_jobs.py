"""Plain pods as jobs, and as their workers."""

from grus.model.interfaces import WorkerState
from grus.model.jobs import Desired, ExitCause, Phase
from grus.model.resources import GPU
from grus.operator.plain.pods_as_jobs import is_plain, job_of, seats_of, spec_of, status_of
from tests.operator.objects import a_plain_pod

RESOURCE = "nvidia.com/gpu"


def test_a_waiting_pod_is_a_waiting_job_of_its_queue() -> None:
    pod = a_plain_pod(gpus=2, nodeSelector={"rack": "3"}, terminationGracePeriodSeconds=7)
    pod["metadata"]["labels"] = {"grus.dev/queue": "vision", "grus.dev/priority": "dev"}
    spec, mistakes = spec_of(pod, RESOURCE)
    assert not mistakes
    job = job_of(pod, spec, 3)
    assert (job.phase, job.spec.queue, job.spec.priority, job.user) == (Phase.PENDING, "vision", 100, "team")
    assert (spec.request.roles[0].replica.gpus, spec.checkpoint.grace) == (2, 7.0)
    assert spec.node_selector == (("rack", "3"),)
    assert job.id.startswith("p")
    assert status_of(pod, job, 0.0) is None


def test_a_bound_pod_is_a_running_job_in_its_places() -> None:
    pod = a_plain_pod(nodeName="n1")
    assert seats_of(pod) == ()  # somebody else has put it there
    pod["metadata"]["annotations"] = {"grus.dev/devices": "n1/0,n1/1"}
    job = job_of(pod, spec_of(pod, RESOURCE)[0], 0)
    assert (job.phase, job.held) == (Phase.RUNNING, 2 * GPU)
    status = status_of(pod, job, 9.0)
    assert status is not None
    assert status.state is WorkerState.RUNNING
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:09Z"
    assert job_of(pod, job.spec, 0).desired is Desired.STOP
    pod["status"] = {"phase": "Succeeded"}
    over = status_of(pod, job, 9.0)
    assert over is not None
    assert over.exit is not None
    assert (over.state, over.exit.cause) == (WorkerState.ENDED, ExitCause.DONE)


def test_pods_of_jobs_and_of_other_schedulers_are_none_of_them() -> None:
    assert is_plain(a_plain_pod())
    assert not is_plain(a_plain_pod(schedulerName="default-scheduler"))
    worker = a_plain_pod()
    worker["metadata"]["labels"] = {"grus.dev/job": "j0123456789"}
    assert not is_plain(worker)


def test_what_is_not_understood_is_told() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]},
    }
    pod = a_plain_pod(affinity=affinity)
    pod["metadata"]["labels"] = {"grus.dev/priority": "urgent"}
    assert len(spec_of(pod, RESOURCE)[1]) == 3
    simple = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                ]
            }
        }
    }
    spec, mistakes = spec_of(a_plain_pod(affinity=simple), RESOURCE)
    assert not mistakes
    assert spec.node_selector == (("zone", "b"),)
