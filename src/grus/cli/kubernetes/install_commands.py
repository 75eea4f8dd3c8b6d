"""`grus kubernetes`: install Grus into a cluster, remove it, print what it consists of, and run its parts."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, for_people, hint, say
from grus.model.errors import BadInput, Conflict, Mistake

if TYPE_CHECKING:
    from grus.kubernetes.client.api import Api
    from grus.kubernetes.install.install_options import Settings
    from grus.sdk.client import Client

PANEL = "Server"
kubernetes = typer.Typer(help="Grus on a Kubernetes cluster.", rich_markup_mode="rich", no_args_is_help=True)


class JobPodSecurity(StrEnum):
    """Pod Security levels that namespaces of jobs can have."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Which cluster; KUBECONFIG or ~/.kube/config by default.", metavar="FILE"),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where Grus itself runs.")]
Image = Annotated[str, typer.Option(help="The Grus image, as deploy/Containerfile makes it.")]
Replicas = Annotated[int, typer.Option(help="Controllers: one acts, the others stand by.", min=1, max=9)]
Resource = Annotated[str, typer.Option(help="What the nodes call a GPU.")]
PullSecret = Annotated[str, typer.Option(help="Secret in the namespace that the image needs.")]
History = Annotated[str, typer.Option(help="Volume claim in the namespace for history and users.")]
RuntimeClass = Annotated[
    str, typer.Option(help="RuntimeClass that shows GPUs to pods, if that is not the nodes' usual one.")
]
Kubelet = Annotated[str, typer.Option(help="The kubelet's folder on the nodes.")]
Converters = Annotated[
    bool, typer.Option("--converters/--no-converters", help="Take ElasticHorovodJob and BBJob too.")
]
AllowedPodFields = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-pod-field",
        help="Field of `pod` that jobs may set too (spec.tolerations); repeatable.",
        metavar="[QUEUE:]PATH",
    ),
]
PodSecurity = Annotated[
    JobPodSecurity,
    typer.Option(help="Pod Security of namespaces made for jobs; baseline lets containers be root."),
]
Dcgm = Annotated[
    str,
    typer.Option(
        help="Where a node's DCGM exporter answers, for the profiler; else NVIDIA's driver is asked.",
        metavar="URL",
    ),
]
Prometheus = Annotated[
    str, typer.Option(help="A Prometheus that has the GPUs of all nodes, for the profiler.", metavar="URL")
]
Select = Annotated[
    str,
    typer.Option(
        help="Which of Prometheus's series are a node's, by labels; else each profiler reads all.",
        metavar="LABELS",
    ),
]
_NAMESPACE, _IMAGE, _RESOURCE = "grus-system", "grus:0.1.0", "nvidia.com/gpu"
_KUBELET = "/var/lib/kubelet"


def add_to(app: typer.Typer) -> None:
    app.add_typer(kubernetes, name="kubernetes", rich_help_panel=PANEL)


def cluster(kubeconfig: Path | None) -> "Api":
    """The API server that is meant. Raises Unreachable with what was tried."""
    _need("lightkube")
    from grus.kubernetes.client.api import Api

    if kubeconfig is not None and not kubeconfig.is_file():
        raise BadInput([Mistake("--kubeconfig", "names no file", str(kubeconfig))])
    return Api.connect(kubeconfig)


def client() -> "Client":
    """Return the client for `grus --kubernetes`."""
    _need("lightkube")
    from grus.cli.kubernetes.kubernetes_backend import connect

    return connect()


def _need(module: str) -> None:
    """Raises BadInput with what to install. Grus without a cluster needs none of it."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        rule = f"needs {module}, which is not installed: pip install 'grus-gpu[kubernetes]'"
        raise BadInput([Mistake("kubernetes", rule)])


# ------------------------------------------------------------------------------------------------- install


@kubernetes.command(
    epilog=examples(
        "grus kubernetes install --image team/grus:0.1.0",
        "grus kubernetes install --replicas 1 --resource amd.com/gpu",
        "grus kubernetes install --dcgm 'http://$(GRUS_HOST):9400/metrics'",
        "grus kubernetes install --prometheus http://prometheus:9090 --select 'node=\"$(GRUS_NODE)\"'",
        "grus kubernetes install --allow-pod-field vision:spec.volumes.persistentVolumeClaim",
        "grus kubernetes install --wait 0",
    )
)
def install(
    image: Image = _IMAGE,
    namespace: Namespace = _NAMESPACE,
    replicas: Replicas = 2,
    resource: Resource = _RESOURCE,
    pull_secret: PullSecret = "",
    history: History = "",
    runtime_class: RuntimeClass = "",
    kubelet: Kubelet = _KUBELET,
    converters: Converters = True,
    allow_pod_field: AllowedPodFields = None,
    pod_security: PodSecurity = JobPodSecurity.RESTRICTED,
    dcgm: Dcgm = "",
    prometheus: Prometheus = "",
    select: Select = "",
    force: Annotated[bool, typer.Option("--force", help="Take over what others have changed.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds until it has to work; 0 does not wait.", min=0)] = 180,
    kubeconfig: Kubeconfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Install or update Grus in a cluster; jobs continue.

    Definitions, rights, the controller (which schedules and serves the dashboard), an agent and a profiler on
    every node are applied; then it waits until all of them work, or reports the problem. Needs the rights of
    a cluster's administrator.
    """
    from grus.cli.kubernetes import installer
    from grus.kubernetes.install.install_options import Settings
    from grus.kubernetes.install.manifests import objects

    api = cluster(kubeconfig)
    settings = Settings(
        namespace=namespace,
        image=image,
        replicas=replicas,
        resource=resource,
        pull_secret=pull_secret,
        history=history,
        runtime_class=runtime_class,
        kubelet=kubelet.rstrip("/"),
        converters=converters,
        allowed_pod_fields=",".join(allow_pod_field or ("none",)),
        pod_security=pod_security.value,
        dcgm=dcgm,
        prometheus=prometheus,
        select=select,
        admission_policies=installer.takes_policies(api),
        disruption_version=installer.disruption_version(api),
    )
    table = output is Format.TABLE
    steps = installer.apply(
        api, objects(settings), force=force, tell=lambda step: say(str(step)) if table else None
    )
    if wait:
        installer.wait_ready(api, namespace, wait, lambda words: hint(f"waiting: {words}"))
    listed = [{"kind": step.kind, "name": step.name, "done": step.done} for step in steps]
    emit(
        {"namespace": namespace, "ready": bool(wait), "objects": listed},
        output,
        lambda: _tell_installed(settings, bool(wait)),
    )


def _tell_installed(settings: "Settings", ready: bool) -> None:
    say(f"Grus is installed in {settings.namespace}" + (" and works." if ready else "."))
    if for_people():
        forward = f"kubectl -n {settings.namespace} port-forward svc/grus 7600"
        hint(f"next: kubectl apply -f job.yaml · grus --kubernetes ps · {forward}")


@kubernetes.command(
    epilog=examples(
        "grus kubernetes uninstall", "grus kubernetes uninstall --yes", "grus kubernetes uninstall -o json"
    )
)
def uninstall(
    yes: Annotated[bool, typer.Option("--yes", help="Also where jobs are running: they are ended.")] = False,
    namespace: Namespace = _NAMESPACE,
    wait: Annotated[float, typer.Option(help="Seconds that jobs have to end in order.", min=0)] = 60,
    kubeconfig: Kubeconfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Remove Grus and all its objects from a cluster.

    All jobs and queues go, and everything that Grus wrote: definitions, rights, pods, leases, finalizers, and
    notes on nodes and pods. Pods of yours that Grus only scheduled continue; those of them that still wait
    need another scheduler.
    """
    from grus.cli.kubernetes import uninstaller

    api = cluster(kubeconfig)
    live = uninstaller.live_jobs(api)
    if live and not yes:
        _ask(live)
    removed = uninstaller.remove(api, namespace, patience=wait, tell=hint)
    rest = uninstaller.left(api, namespace)
    if rest:
        raise Conflict(f"{len(rest)} things are still there: {', '.join(rest[:20])}; run it again")
    emit(
        {"removed": dict(removed), "left": rest},
        output,
        lambda: say(f"{uninstaller.summary(removed.items())}\nNothing of Grus is left in the cluster."),
    )


def _ask(live: "list[dict[str, object]]") -> None:
    """Ask for a confirmation on a terminal; elsewhere `--yes` is required."""
    names = [f"{job['metadata']['namespace']}/{job['metadata']['name']}" for job in live]  # type: ignore[index]  # an object of the API
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    words = f"{len(names)} job{'s have' if len(names) > 1 else ' has'} not ended: {shown}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Conflict(f"{words}. `--yes` ends them")
    typer.confirm(f"{words}. End them and remove everything?", abort=True, err=True)


# ------------------------------------------------------------------------------------------------ manifests


@kubernetes.command(
    epilog=examples(
        "grus kubernetes manifests --image team/grus:0.1.0 > grus.yaml",
        "grus kubernetes manifests --old | kubectl apply --server-side -f -",
    )
)
def manifests(
    image: Image = _IMAGE,
    namespace: Namespace = _NAMESPACE,
    replicas: Replicas = 2,
    resource: Resource = _RESOURCE,
    pull_secret: PullSecret = "",
    history: History = "",
    runtime_class: RuntimeClass = "",
    kubelet: Kubelet = _KUBELET,
    converters: Converters = True,
    allow_pod_field: AllowedPodFields = None,
    pod_security: PodSecurity = JobPodSecurity.RESTRICTED,
    dcgm: Dcgm = "",
    prometheus: Prometheus = "",
    select: Select = "",
    old: Annotated[bool, typer.Option("--old", help="For Kubernetes before 1.21.")] = False,
    policies: Annotated[
        bool, typer.Option("--policies", help="With admission policies, for Kubernetes 1.30 and newer.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Print all objects of an installation as YAML.

    With `-o json` as a List. It asks no cluster.
    """
    from grus.kubernetes.install.install_options import Settings
    from grus.kubernetes.install.manifests import objects

    settings = Settings(
        namespace=namespace,
        image=image,
        replicas=replicas,
        resource=resource,
        pull_secret=pull_secret,
        history=history,
        runtime_class=runtime_class,
        kubelet=kubelet.rstrip("/"),
        converters=converters,
        allowed_pod_fields=",".join(allow_pod_field or ("none",)),
        pod_security=pod_security.value,
        dcgm=dcgm,
        prometheus=prometheus,
        select=select,
        admission_policies=policies,
        disruption_version="policy/v1beta1" if old else "policy/v1",
    )
    made = objects(settings)
    emit({"apiVersion": "v1", "kind": "List", "items": made}, output, lambda: say(as_yaml(made).rstrip()))


def as_yaml(objects: "list[dict[str, object]]") -> str:
    """Documents in their order, each with its fields as they were written."""
    import yaml

    class Plain(yaml.SafeDumper):
        """YAML without anchors: people read this, and so do other tools."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - for every object
            return True

    return yaml.dump_all(objects, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)


# ------------------------------------------------------------------------------------------ what runs inside


@kubernetes.command(
    epilog=examples("grus kubernetes controller", "grus kubernetes controller --kubeconfig config")
)
def controller(kubeconfig: Kubeconfig = None, output: Output = Format.TABLE) -> None:  # noqa: ARG001 - as every verb
    """Run the controller: scheduler, API and dashboard.

    The Deployment runs this.
    """
    _need("lightkube")
    from grus.dashboard.mounting import mount
    from grus.server.runtime.kubernetes_operator import main

    raise typer.Exit(main(kubeconfig, mount=mount))


@kubernetes.command(epilog=examples("grus kubernetes agent"))
def agent(
    gpus: Annotated[str, typer.Option(help="How GPUs are measured: auto, nvml, pretend or none.")] = "auto",
    output: Output = Format.TABLE,  # noqa: ARG001 - as every verb
) -> None:
    """Run the agent of one node, as root.

    The DaemonSet runs this.
    """
    _need("lightkube")
    from grus.kubernetes.agent.__main__ import main

    raise typer.Exit(main(["--gpus", gpus]))


@kubernetes.command(
    epilog=examples(
        "grus kubernetes profiler", "grus kubernetes profiler --dcgm http://10.0.0.7:9400/metrics"
    )
)
def profiler(
    gpus: Annotated[str, typer.Option(help="How GPUs are measured: auto, nvml, pretend or none.")] = "auto",
    dcgm: Dcgm = "",
    prometheus: Prometheus = "",
    select: Select = "",
    hertz: Annotated[float, typer.Option("--hz", help="Samples a second.", min=0.1, max=10)] = 1.0,
    output: Output = Format.TABLE,  # noqa: ARG001 - as every verb
) -> None:
    """Run the profiler of one node.

    It tags the node and its pods with their recognized activity. The DaemonSet runs this.
    """
    _need("lightkube")
    from grus.kubernetes.profiler.__main__ import main

    told = ["--gpus", gpus, "--hz", str(hertz), "--dcgm", dcgm]
    raise typer.Exit(main([*told, "--prometheus", prometheus, "--select", select]))
