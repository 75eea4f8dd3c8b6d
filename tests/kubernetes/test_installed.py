"""An installation on real nodes, from nothing to nothing: as the manifests, the pages and the samples say.

Everything runs with the rights of the manifests alone, under restricted pod security and random user ids. A
cluster of its own: at the end it is removed from it.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from grus.kubernetes import names
from grus.kubernetes.client.api import Api
from grus.kubernetes.node import tag_annotations
from tests.elastic.parts import free_port
from tests.elastic.test_named import a_file
from tests.kubernetes import installed as whole
from tests.kubernetes.clusters import PATIENCE, Cluster, kubectl, new_namespace, shared, until
from tests.kubernetes.objects import ROOT
from tests.kubernetes.test_install import everything_that_names_grus
from tests.operator.foreign_jobs.samples import annotated, brain_sample, horovod_sample
from tools.kubernetes.node import IMAGE
from tools.kubernetes.versions import pod_security, release_of

PAGE = ROOT / "docs" / "kubernetes.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRAINING = 400.0
"""Seconds that a training may take on a machine that is busy with other tests."""
SCRIPT = ROOT / "tests/kubernetes/samples/pytorch_elastic.py"


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A folder that workers of any user may read."""
    with TemporaryDirectory(prefix="grus-data-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        a_file(folder / "train.tfrecord", 8)
        yield folder


@pytest.fixture(scope="module")
def own(data: Path) -> Iterator[Cluster]:
    plugins = pod_security(release_of(kubectl().with_name("kube-apiserver")))
    flags = [word for flag in plugins for word in ("--flag", f"kube-apiserver:{flag}")]
    policies = whole.secured("installed") if plugins else nullcontext()
    with policies, shared("installed", "--nodes", "2", "--gpus", "4", *flags) as started:
        api = Api.connect(started.kubeconfig)
        whole.install(api, data=data)
        api.close()
        yield started


@pytest.fixture
def team(own: Cluster) -> Iterator[str]:
    with own.client() as client, new_namespace(client) as name:
        yield name


def status_of(own: Cluster, kind: str, name: str, namespace: str) -> dict[str, Any]:
    found = json.loads(own.kubectl("-n", namespace, "get", kind, name, "-o", "json"))
    return dict(found.get("status") or {})


def ended(own: Cluster, kind: str, name: str, namespace: str) -> bool:
    return status_of(own, kind, name, namespace).get("phase") in ("succeeded", "failed", "refused")


def said(own: Cluster, namespace: str) -> str:
    """What the workers there have printed."""
    names = own.kubectl("-n", namespace, "get", "pods", "-o", "name").split()
    return "\n".join(own.kubectl("-n", namespace, "logs", name) for name in names)


def test_one_of_two_controllers_leads_as_a_random_user_and_the_service_finds_it(own: Cluster) -> None:
    pods = json.loads(own.kubectl("-n", "grus-system", "get", "pods", "-o", "json"))["items"]
    controllers = [pod for pod in pods if pod["metadata"]["name"].startswith("grus-controller")]
    assert len(controllers) == 2
    leaders = [pod for pod in controllers if pod["metadata"]["labels"].get("grus.dev/leader")]
    assert len(leaders) == 1
    endpoints = own.kubectl("-n", "grus-system", "get", "endpoints", "grus", "-o", "jsonpath={..ip}")
    assert endpoints == leaders[0]["status"]["podIP"]
    told = own.kubectl("-n", "grus-system", "exec", leaders[0]["metadata"]["name"], "--", "/usr/bin/id", "-u")
    assert int(told) == whole.RANDOM_USER


def test_workers_live_with_the_user_that_a_restricted_namespace_gives_them(own: Cluster, team: str) -> None:
    if not pod_security(release_of(kubectl().with_name("kube-apiserver"))):
        pytest.skip("1.25 removed PodSecurityPolicy, which chooses user ids; its successor chooses none")
    job = {
        "apiVersion": "grus.dev/v1alpha1",
        "kind": "GpuJob",
        "metadata": {"name": "anybody", "namespace": team},
        "spec": {"run": f"test $(id -u) -ge {whole.FIRST_USER}", "resources": {"gpu": 1}},
    }
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    until(lambda: ended(own, "gpujobs", "anybody", team), "the job has ended", TRAINING)
    assert status_of(own, "gpujobs", "anybody", team)["phase"] == "succeeded"
    (pod,) = json.loads(own.kubectl("-n", team, "get", "pods", "-o", "json"))["items"]
    assert pod["metadata"]["annotations"]["kubernetes.io/psp"] == "restricted"


def test_a_worker_gets_its_secret_and_no_object_has_the_value(
    own: Cluster, team: str, shell: dict[str, str]
) -> None:
    value = "hush-7f3a"
    (command,) = [text for text in blocks("console") if "create secret generic" in text]
    ran(command.replace("-n team", f"-n {team}"), {**shell, "WANDB_API_KEY": value})
    spec = {"run": f'test "$KEY" = {value[:5]}"7f3a"', "secrets": {"KEY": "wandb"}, "resources": {"gpu": 1}}
    job = {
        "apiVersion": "grus.dev/v1alpha1",
        "kind": "GpuJob",
        "metadata": {"name": "secretive", "namespace": team},
        "spec": spec,
    }
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    until(lambda: ended(own, "gpujobs", "secretive", team), "the job has ended", TRAINING)
    assert status_of(own, "gpujobs", "secretive", team)["phase"] == "succeeded"
    everything = own.kubectl("-n", team, "get", "gpujobs,pods,events", "-o", "yaml")
    assert value not in everything + own.kubectl("-n", team, "describe", "gpujobs,pods")


@pytest.fixture
def shell(own: Cluster, team: str, tmp_path: Path) -> dict[str, str]:
    """Environment of somebody in that namespace who has kubectl and grus and nothing else."""
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = team
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    for name, command in {"kubectl": str(kubectl()), "grus": f"{sys.executable} -m grus.cli.main"}.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    return {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), **path}


def ran(line: str, shell: dict[str, str]) -> str:
    """Output of a line that must succeed."""
    done = subprocess.run(
        ["bash", "-ec", line],
        env=shell,
        cwd=shell["HOME"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == language]


def test_the_commands_of_the_page_do_what_it_says(shell: dict[str, str]) -> None:
    for text in blocks("yaml"):
        Path(shell["HOME"], text.splitlines()[0].removeprefix("# ")).write_text(text)
    said = {line: ran(line, shell) for text in blocks("sh") for line in text.splitlines()}
    assert len(said) >= 10
    assert "succeeded" in said["grus --kubernetes ps -a"]
    assert "node2/3" in said["grus --kubernetes nodes"]
    assert "[worker 0] worker 0 of 2" in said["grus --kubernetes logs hello --all"]
    assert "vision" in said["grus --kubernetes queue list"]


@pytest.fixture
def forwarded(shell: dict[str, str]) -> Iterator[dict[str, str]]:
    """Environment after the page's commands for the API, at another local port: 7600 may be in use here."""
    (text,) = blocks("bash")
    port = free_port()
    forward, export, use = text.replace("127.0.0.1:7600", f"127.0.0.1:{port}").splitlines()
    forward = forward.removesuffix(" &").replace("svc/grus 7600", f"svc/grus {port}:7600")
    with subprocess.Popen(shlex.split(forward), env=shell, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            assert "Forwarding" in forwarding.stdout.readline()
            token = ran(f'{export}; echo -n "$GRUS_TOKEN"', shell)
            yield {**shell, "GRUS_TOKEN": token, "GRUS_SERVER": f"http://127.0.0.1:{port}", "page": use}
        finally:
            forwarding.terminate()


def test_the_page_s_token_opens_a_fresh_installation(forwarded: dict[str, str]) -> None:
    assert "you are    admin (admin)" in ran(forwarded["page"], forwarded)


def test_a_submission_by_http_takes_nothing_of_the_submitter_s_machine_into_the_pod(
    forwarded: dict[str, str],
) -> None:
    Path(forwarded["HOME"], "job.yaml").write_text("name: away\nrun: 'pwd; echo PATH=$PATH'\n")
    said = ran("grus submit job.yaml --watch 2>&1; grus describe away -o json", forwarded)
    assert f"Not sent: PATH, the folder {forwarded['HOME']}" in said
    printed = ran("grus logs away", forwarded)
    assert forwarded["HOME"] not in printed


def test_a_session_by_http_is_refused_and_no_job_is_made(forwarded: dict[str, str]) -> None:
    refused = subprocess.run(
        ["grus", "dev", "--no-open"],
        env=forwarded,
        cwd=forwarded["HOME"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert refused.returncode == 5
    assert "it has no sessions" in refused.stderr
    assert "dev" not in ran("grus ps -a", forwarded)


RHYTHM = """
import time
while True:
    end = time.monotonic() + 4
    while time.monotonic() < end:
        pass
    time.sleep(2)
"""


def tags_of(own: Cluster, *what: str) -> dict[str, dict[str, Any]]:
    """The tags on an object, by the names of their annotations."""
    notes = json.loads(own.kubectl("get", *what, "-o", "json"))["metadata"].get("annotations") or {}
    return {name: json.loads(text) for name, text in notes.items() if tag_annotations.ours(name)}


def test_what_runs_is_tagged_on_its_pod_and_its_node_until_it_ends(own: Cluster, team: str) -> None:
    """By a profiler that may do nothing but write the status of pods and nodes."""
    job = {
        "apiVersion": "grus.dev/v1alpha1",
        "kind": "GpuJob",
        "metadata": {"name": "rhythm", "namespace": team},
        "spec": {"run": ["python", "-c", RHYTHM], "resources": {"gpu": 1}, "checkpoint": {"grace": "1s"}},
    }
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    own.kubectl("-n", team, "wait", "--for=condition=Running", "gpujob/rhythm", "--timeout=300s")
    (pod,) = json.loads(own.kubectl("-n", team, "get", "pods", "-o", "json"))["items"]
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]

    def rhythm(tag: dict[str, Any] | None) -> bool:
        return tag is not None and tag["kind"] == "training" and "period" in tag

    until(lambda: rhythm(tags_of(own, "pod", "-n", team, name).get(names.TAG)), "the pod is tagged", PATIENCE)
    until(lambda: any(rhythm(tag) for tag in tags_of(own, "node", node).values()), "its node is tagged")
    assert abs(tags_of(own, "pod", "-n", team, name)[names.TAG]["period"] - 6) < 1
    own.kubectl("-n", team, "delete", "gpujob", "rhythm")
    until(lambda: not tags_of(own, "node", node), "the tags went with the job")


def test_an_elastic_horovod_job_runs_to_its_end_and_tells_so(own: Cluster, team: str) -> None:
    """The sample's fields, with an image and a script of this machine; two workers are enough for it."""
    sample = annotated(horovod_sample(targetReplicas=2))
    sample["metadata"] = {"name": "sample", "namespace": team}
    sample["spec"]["launcherSpec"] = {"image": IMAGE, "pythonCommand": ["python", f"{SCRIPT} --epochs=3"]}
    sample["spec"]["workersSpec"]["image"] = IMAGE
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(sample))
    seen = set()

    def over() -> bool:
        seen.add(status_of(own, "elastichorovodjobs", "sample", team).get("availableReplicas"))
        return ended(own, "elastichorovodjobs", "sample", team)

    until(over, "the job has ended", TRAINING)
    status = status_of(own, "elastichorovodjobs", "sample", team)
    assert status["phase"] == "succeeded", f"{status['reason']}\n{said(own, team)}"
    assert status["workers"] == "gpujob.grus.dev/elastichorovodjob-sample"
    assert 2 in seen
    assert max(number or 0 for number in seen) == 2
    own.kubectl("-n", team, "delete", "elastichorovodjob", "sample")
    until(lambda: not own.kubectl("-n", team, "get", "gpujobs", "-o", "name"), "its job went with it")


def test_a_bbjob_trains_what_it_names_to_the_end(own: Cluster, team: str) -> None:
    sample = annotated(brain_sample(), gpu="1")
    sample["metadata"] |= {"namespace": team}
    del sample["metadata"]["uid"]
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(sample))
    until(lambda: ended(own, "bbjobs", "bbjob-sample", team), "the job has ended", TRAINING)
    status = status_of(own, "bbjobs", "bbjob-sample", team)
    assert status["phase"] == "succeeded", f"{status['reason']}\n{said(own, team)}"
    assert {one["type"]: one["status"] for one in status["conditions"]}["Complete"] == "True"


def test_nonsense_of_other_systems_is_refused_on_the_object_itself(own: Cluster, team: str) -> None:
    sample = horovod_sample(minReplicas=4, maxReplicas=2)
    sample["metadata"] = {"name": "nonsense", "namespace": team}
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(sample))
    until(lambda: ended(own, "elastichorovodjobs", "nonsense", team), "it was looked at")
    status = status_of(own, "elastichorovodjobs", "nonsense", team)
    assert "maxReplicas" in status["reason"]
    assert own.kubectl("-n", team, "get", "gpujobs", "-o", "name") == ""


def test_a_removal_ends_what_runs_and_leaves_nothing(own: Cluster, team: str) -> None:
    job = {
        "apiVersion": "grus.dev/v1alpha1",
        "kind": "GpuJob",
        "metadata": {"name": "long", "namespace": team},
        "spec": {"run": "exec sleep 600", "resources": {"gpu": 2}, "checkpoint": {"grace": "1s"}},
    }
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    own.kubectl("-n", team, "wait", "--for=condition=Running", "gpujob/long", "--timeout=300s")
    environment = {"KUBECONFIG": str(own.kubeconfig), "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}/src"}
    command = [sys.executable, "-m", "grus.cli.main", "kubernetes", "uninstall", "--yes", "-o", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["left"] == []
    assert everything_that_names_grus(own) == []
    assert own.kubectl("-n", team, "get", "pods", "-o", "name") == ""
