"""What an installation consists of: complete, consistent, and with no more rights than it needs."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grus.api.inputs.pod_field_policy import fields_for
from grus.cli.main import app
from grus.kubernetes.install import rbac
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import LEADER, objects
from grus.server.runtime.kubernetes_operator import allowed_pod_fields

Object = dict[str, Any]

COMMAND = "grus kubernetes install --allow-pod-field"


def by_kind(kind: str, settings: Settings | None = None) -> list[Object]:
    return [one for one in objects(settings or Settings()) if one["kind"] == kind]


def the(kind: str, name: str = "", settings: Settings | None = None) -> Object:
    found = [one for one in by_kind(kind, settings) if not name or one["metadata"]["name"] == name]
    assert len(found) == 1
    return found[0]


def pod_specs(settings: Settings | None = None) -> Iterator[Object]:
    """Of the controller, the agent and the profiler."""
    for kind in ("Deployment", "DaemonSet"):
        for one in by_kind(kind, settings):
            yield one["spec"]["template"]["spec"]


def test_every_object_has_the_label_by_which_an_uninstall_finds_it() -> None:
    for one in objects(Settings()):
        assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "grus", one["metadata"]["name"]


def test_what_others_need_comes_before_them() -> None:
    order = [one["kind"] for one in objects(Settings())]
    assert order[0] == "Namespace"
    assert order.index("CustomResourceDefinition") < order.index("Deployment")
    assert order.index("ServiceAccount") < order.index("Deployment")
    assert order.index("ClusterRole") < order.index("ClusterRoleBinding") < order.index("DaemonSet")


def test_everything_in_a_namespace_is_in_the_chosen_one() -> None:
    homes = {one["metadata"].get("namespace") for one in objects(Settings(namespace="pool"))}
    assert homes == {"pool", None}
    assert the("Namespace", settings=Settings(namespace="pool"))["metadata"]["name"] == "pool"
    for binding in (*by_kind("ClusterRoleBinding", Settings(namespace="pool")),):
        for subject in binding["subjects"]:
            assert subject.get("namespace", "pool") == "pool"


def test_there_are_two_controllers_that_prefer_two_nodes_with_probes_and_requests() -> None:
    deployment = the("Deployment")
    assert deployment["spec"]["replicas"] == 2
    spec = deployment["spec"]["template"]["spec"]
    assert "podAntiAffinity" in spec["affinity"]
    (container,) = spec["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_the_controller_meets_restricted_pod_security_and_leaves_its_user_id_open() -> None:
    """The rules of the standard: kubernetes.io/docs/concepts/security/pod-security-standards."""
    spec = the("Deployment")["spec"]["template"]["spec"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["readOnlyRootFilesystem"] is True
        assert "runAsUser" not in context
        assert "HOME" in {variable["name"] for variable in container["env"]}


def test_the_agent_is_on_every_node_and_is_not_privileged() -> None:
    spec = the("DaemonSet", rbac.AGENT)["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    (container,) = spec["containers"]
    assert "privileged" not in container["securityContext"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_the_profiler_is_on_every_node_without_root_and_without_the_hosts_processes() -> None:
    spec = the("DaemonSet", rbac.PROFILER)["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
    (container,) = spec["containers"]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = [one for one in container["volumeMounts"] if one["name"] != "tmp"]
    assert [(one["mountPath"], one["readOnly"]) for one in mounts] == [("/sys/fs/cgroup", True)]


def test_the_profiler_is_told_where_its_figures_come_from() -> None:
    dcgm = the("DaemonSet", rbac.PROFILER, Settings(dcgm="http://$(GRUS_HOST):9400/metrics"))
    (container,) = dcgm["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--dcgm", "http://$(GRUS_HOST):9400/metrics"]
    assert {one["name"] for one in container["env"]} >= {"GRUS_NODE", "GRUS_HOST"}


def test_the_service_leads_to_the_controller_that_acts() -> None:
    selector = the("Service")["spec"]["selector"]
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector == {**labels, LEADER: "true"}


def test_a_node_can_be_drained_while_a_controller_is_left() -> None:
    """A budget of none would block a drain for ever; one at a time leaves one."""
    budget = the("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == the("Deployment")["spec"]["selector"]


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_the_budget_is_of_the_version_that_the_server_knows(version: str) -> None:
    settings = Settings(disruption_version=version)
    assert the("PodDisruptionBudget", settings=settings)["apiVersion"] == version


def test_what_has_no_policy_of_its_own_in_the_namespace_neither_hears_nor_speaks() -> None:
    nothing = the("NetworkPolicy", "grus-nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_settings_reach_the_pods() -> None:
    settings = Settings(image="team/grus:9", resource="amd.com/gpu", pull_secret="key", history="claim")
    for spec in pod_specs(settings):
        assert spec["imagePullSecrets"] == [{"name": "key"}]
        assert {container["image"] for container in spec["containers"]} == {"team/grus:9"}
    controller = the("Deployment", settings=settings)["spec"]["template"]["spec"]
    values = {one["name"]: one.get("value") for one in controller["containers"][0]["env"]}
    assert (values["GRUS_IMAGE"], values["GRUS_GPU_RESOURCE"]) == ("team/grus:9", "amd.com/gpu")
    assert {"persistentVolumeClaim": {"claimName": "claim"}, "name": "history"} in controller["volumes"]


def test_a_runtime_class_is_for_the_pods_that_see_gpus_and_no_others() -> None:
    settings = Settings(runtime_class="nvidia")
    controller, agent, profiler = pod_specs(settings)
    assert agent["runtimeClassName"] == profiler["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in controller
    values = {one["name"]: one.get("value", "") for one in controller["containers"][0]["env"]}
    assert json.loads(values["GRUS_POD_TEMPLATE"]) == {"spec": {"runtimeClassName": "nvidia"}}


# -------------------------------------------------------------------------------------------------- rights


def rules(role: str) -> list[Object]:
    found: list[Object] = the("ClusterRole", role)["rules"]
    return found


def test_no_right_is_a_wildcard_and_none_is_for_secrets() -> None:
    for role in (*by_kind("ClusterRole"), *by_kind("Role")):
        for rule in role["rules"]:
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule[part], (role["metadata"]["name"], rule)
            assert "secrets" not in rule["resources"]
            assert not {"impersonate", "escalate"} & set(rule["verbs"])


def test_accounts_change_no_role_and_no_definition_and_bind_the_role_of_jobs_only() -> None:
    found = [
        (rule["resources"], rule["verbs"], rule.get("resourceNames"))
        for role in (rbac.CONTROLLER, rbac.AGENT, rbac.PROFILER, rbac.JOBS)
        for rule in rules(role)
        if {"rbac.authorization.k8s.io", "apiextensions.k8s.io"} & set(rule["apiGroups"])
    ]
    assert found == [
        (["rolebindings"], ["create"], None),
        (["clusterroles"], ["bind"], [rbac.JOBS]),
        (["customresourcedefinitions"], ["get"], None),
    ]


def test_the_controller_can_write_no_pod_service_or_config_map_by_its_cluster_role() -> None:
    written = {one for one, verb in granted(rbac.CONTROLLER) if verb not in ("get", "list", "watch")}
    assert not {one for one in written if one.startswith(("pods", "services", "configmaps"))}
    bound = [one for one in by_kind("RoleBinding") if one["roleRef"]["name"] == rbac.JOBS]
    assert [one["metadata"]["namespace"] for one in bound] == ["grus-system"]


def granted(role: str) -> set[tuple[str, str]]:
    return {(one, verb) for rule in rules(role) for one in rule["resources"] for verb in rule["verbs"]}


def test_the_agent_annotates_pods_and_cannot_change_what_they_run() -> None:
    assert granted(rbac.AGENT) == {("pods", "list"), ("pods", "watch"), ("pods/status", "patch")}


def test_the_profiler_writes_annotations_and_can_change_neither_pods_nor_nodes() -> None:
    assert granted(rbac.PROFILER) == {
        ("pods", "list"),
        ("pods", "watch"),
        ("nodes", "get"),
        ("pods/status", "patch"),
        ("nodes/status", "patch"),
    }


def test_leases_are_a_right_inside_the_namespace_only() -> None:
    everywhere = {resource for rule in rules(rbac.CONTROLLER) for resource in rule["resources"]}
    assert "leases" not in everywhere
    assert the("Role")["rules"][0]["resources"] == ["leases"]


def test_users_rights_join_view_edit_and_admin() -> None:
    joined = {
        role["metadata"]["name"]: sorted(
            label.rpartition("-")[2] for label in role["metadata"]["labels"] if "aggregate-to-" in label
        )
        for role in by_kind("ClusterRole")
    }
    assert joined["grus-view"] == ["view"]
    assert joined["grus-edit"] == ["admin", "edit"]
    assert not {verb for rule in rules("grus-view") for verb in rule["verbs"]} - {"get", "list", "watch"}
    for role in ("grus-view", "grus-edit"):
        assert "gpujobs/status" not in [
            resource
            for rule in rules(role)
            for resource in rule["resources"]
            if "patch" in rule["verbs"] or "update" in rule["verbs"]
        ]


def test_queues_are_seen_by_all_and_changed_by_no_role_of_users() -> None:
    for role in ("grus-view", "grus-edit"):
        assert "gpuqueues" not in {one for rule in rules(role) for one in rule["resources"]}
    (reader,) = rules(rbac.QUEUE_READER)
    assert reader["verbs"] == ["get", "list", "watch"]


def test_without_converters_nothing_of_other_systems_is_left() -> None:
    text = str(objects(Settings(converters=False)))
    assert "centaurus" not in text
    assert "big-brain" not in text


def test_admission_policies_hold_accounts_to_their_namespaces_and_nodes_where_the_server_has_them() -> None:
    assert by_kind("ValidatingAdmissionPolicy") == []
    made = objects(Settings(admission_policies=True))
    found = {
        one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "ValidatingAdmissionPolicy"
    }
    bound = {
        one["spec"]["policyName"]: one["spec"]["validationActions"]
        for one in made
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    assert bound == {name: ["Deny"] for name in found}
    assert {spec["failurePolicy"] for spec in found.values()} == {"Fail"}
    (controller,) = found["grus-controller-namespaces"]["validations"]
    assert "startsWith('kube-')" in controller["expression"]
    (pods,) = found["grus-nodes-own-pods"]["validations"]
    assert "object.spec.nodeName == request.userInfo.extra" in pods["expression"]


def test_rules_of_admission_policies_mix_no_wildcard_with_other_words() -> None:
    """API servers refuse that, and with it the whole installation; the schemas do not say so."""
    made = objects(Settings(admission_policies=True))
    rules = [
        rule
        for one in made
        if one["kind"] == "ValidatingAdmissionPolicy"
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
    ]
    assert rules
    for rule in rules:
        for words in (rule["apiGroups"], rule["apiVersions"], rule["operations"], rule["resources"]):
            assert len(words) == 1 or not {"*", "*/*"} & set(words), rule


def controller_environment(*words: str) -> dict[str, str]:
    """As the controller gets it, by the command with these options."""
    done = CliRunner().invoke(app, ["kubernetes", "manifests", *words, "-o", "json"])
    assert done.exit_code == 0, done.output
    (one,) = [item for item in json.loads(done.stdout)["items"] if item["kind"] == "Deployment"]
    (container,) = one["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def test_fields_that_an_administrator_allows_as_the_page_says_reach_the_controller() -> None:
    page = Path(__file__).parents[3] / "docs" / "kubernetes.md"
    (line,) = [one for one in page.read_text().splitlines() if one.startswith(COMMAND)]
    given = controller_environment(*shlex.split(line)[3:], "--pod-security", "baseline")
    allowed = allowed_pod_fields(given["GRUS_ALLOWED_POD_FIELDS"])
    assert fields_for("vision", allowed) == {"spec.tolerations", "spec.volumes.persistentVolumeClaim"}
    assert fields_for("speech", allowed) == {"spec.tolerations"}
    assert given["GRUS_POD_SECURITY"] == "baseline"
    usual = controller_environment()
    assert allowed_pod_fields(usual["GRUS_ALLOWED_POD_FIELDS"]) == ()
    assert usual["GRUS_POD_SECURITY"] == "restricted"
