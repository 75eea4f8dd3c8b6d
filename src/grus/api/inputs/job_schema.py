"""Job as a user submits it: the body of POST /v1/jobs and one document of a job file.

An existing JobIn keeps every rule; `docs/job-reference.md` describes them for users. It holds what the user
wrote (`2..8`, `30m`), so that it can be sent on unchanged; `job_spec.to_spec` converts it into the core's
value.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from grus.api.inputs import pod_template as pods
from grus.api.inputs.resources import ResourcesIn, auto_rules, size_rules
from grus.api.inputs.secrets import Secrets, beside_env
from grus.api.inputs.serving_schema import ServeIn, serve_rules
from grus.api.inputs.sweep_schema import SweepIn, params_checked, sweep_rules
from grus.api.inputs.training_schema import TrainIn
from grus.api.inputs.workflow_stages import ALWAYS, SUCCESS, Inputs, Outputs, When
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Strict, ValidFields
from grus.model.identifiers import NAME, NAME_RULE
from grus.model.jobs import NEVER_PREEMPTED, PRIORITIES, USUAL_PRIORITY, JobType
from grus.model.queues import DEFAULT_QUEUE
from grus.model.texts.units import GpuAsk, parse_gpu, parse_range
from grus.model.train_serve_spec import MODEL

MOST_ROLES = 16
SETUP = "setup"
"""Role of the worker that runs a job's `setup` lines."""

_TYPES = f.choice(("train", "dev", "sweep", "serve"))
_LAUNCH = f.optional(f.choice(("once", "per-gpu", "per-node")))
_RESIZE = f.choice(("auto", "live", "restart"))
_DATA = f.optional(f.one_or_more(f.text(f.LONGEST_PATH)))


def _image(value: Any) -> str:
    name = str(f.text(500)(value))
    if any(letter.isspace() for letter in name):
        raise ValueError("must be the name of a container image, without spaces")
    return name


_Image = Annotated[str | None, f.judged(f.optional(_image))]
_Pod = Annotated[dict[str, Any], f.judged(pods.checked)]


class CheckpointIn(Strict):
    """Path to which the job saves checkpoints, and the grace period to save when it is paused."""

    path: f.Path = ""
    """Folder or file, relative to workdir."""
    grace: Annotated[
        str | int | float,
        f.judged(f.seconds(0, 3600)),
    ] = 30
    """Seconds from the pause request to the kill."""
    every: Annotated[
        str | int | float | None,
        f.judged(f.optional(f.seconds(1, 30 * f.DAY))),
    ] = None
    """Period between the job's own checkpoints."""


class IdleIn(Strict):
    """Action on a job whose GPUs are idle."""

    below: f.Percent = "10%"
    """GPU utilization below which the job counts as idle."""
    for_: Annotated[
        str | int | float,
        f.judged(f.seconds(1, 30 * f.DAY)),
    ] = Field("30m", alias="for")
    """Time for which utilization must stay below the limit."""
    action: Annotated[str, f.judged(f.choice(("pause", "notify")))] = "notify"


class AffinityIn(Strict):
    """Preferred nodes and nodes to avoid."""

    prefer: f.Labels = Field(default_factory=dict)
    """Labels of nodes to prefer if there is a choice."""
    avoid_nodes: Annotated[
        tuple[str, ...],
        f.judged(f.items(f.text(f.LONGEST_LABEL), most=256)),
    ] = ()
    """Nodes that are never used."""


class RoleIn(Strict):
    """Template of a gang's role: its command, the resources of each replica, the number of replicas."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("command", "cmd", "script"), "run"),
        **dict.fromkeys(("count", "num", "workers", "instances"), "replicas"),
        **dict.fromkeys(("gpu", "cpu", "memory", "sizes", "mixed"), "it belongs under resources"),
    }

    run: f.Command = None
    resources: ResourcesIn = ResourcesIn()
    """Resources of each replica, all on one node."""
    replicas: f.Replicas = 1
    image: _Image = None
    """Container image of its pods, if not the job's own; only on Kubernetes."""
    pod: _Pod = Field(default_factory=dict)
    """More fields of its pods, over those of the job; only on Kubernetes."""


def _roles(value: Any) -> Any:
    """Check the shape only; RoleIn validates the contents, the rules across fields validate the names."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping from a role's name to its run, resources and replicas")
    if not 1 <= len(value) <= MOST_ROLES:
        raise ValueError(f"must have 1 to {MOST_ROLES} roles")
    return value


class JobIn(Strict):
    """Job as a user writes it."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("gpu", "sizes", "mixed", "cpu", "memory"), "it belongs under resources"),
        **dict.fromkeys(("gpus", "num_gpus"), "write resources: {gpu: 4}"),
        **dict.fromkeys(("command", "cmd", "script", "entrypoint", "args"), "run"),
        **dict.fromkeys(("environment", "envs", "variables"), "env"),
        **dict.fromkeys(("secret", "secret_env", "env_secrets"), "secrets"),
        **dict.fromkeys(("cwd", "dir", "directory", "working_dir"), "workdir"),
        **dict.fromkeys(("timeout", "time_limit", "walltime", "deadline"), "max_runtime"),
        **dict.fromkeys(("depends_on", "needs", "dependencies"), "after"),
        **dict.fromkeys(("team", "project", "partition"), "queue"),
        **dict.fromkeys(("grace", "path", "every"), "it belongs under checkpoint"),
        "replicas": "it belongs to a role, under roles",
        **dict.fromkeys(("container", "docker", "container_image"), "image"),
        **dict.fromkeys(("pod_template", "template", "podtemplate"), "pod"),
        **dict.fromkeys(("volumes", "tolerations"), "write pod: {spec: {…}}"),
        "kind": "type",
        **dict.fromkeys(("search", "tune", "hyperparameters"), "sweep"),
        **dict.fromkeys(("parameters", "param"), "params"),
        **dict.fromkeys(("space", "metric", "sampler"), "it belongs under sweep"),
        **dict.fromkeys(("artifacts", "artefacts", "output"), "outputs"),
        "input": "inputs",
        **dict.fromkeys(("dataset", "datasets"), "data"),
        **dict.fromkeys(("training", "fit"), "train"),
        **dict.fromkeys(("model", "loss", "optimizer", "batch", "epochs"), "it belongs under train"),
    }

    type: Annotated[str, f.judged(_TYPES)] = "train"
    name: f.MaybeName = None
    queue: f.Name = DEFAULT_QUEUE
    run: f.Command = None
    """Command line for the shell, or a list of arguments run as it is."""
    train: TrainIn | None = None
    """Training definition, in place of run: model, data, loss and optimizer; Grus does the rest."""
    sweep: SweepIn | None = None
    """Search definition of a job of type sweep: the rest of this document is the template of its trials."""
    params: Annotated[dict[str, bool | int | float | str], f.judged(params_checked)] = Field(
        default_factory=dict
    )
    """Values that its program reads by `grus.params()`."""
    serve: ServeIn | None = None
    """Model that answers requests, in place of run; for a job of type serve."""
    setup: f.Command = None
    """Lines that run once before each attempt."""
    launch: Annotated[str | None, f.judged(_LAUNCH)] = None
    resize: Annotated[str, f.judged(_RESIZE)] = "auto"
    """Effect of a size change while it runs."""
    resources: ResourcesIn = ResourcesIn()
    priority: f.Priority = None
    checkpoint: CheckpointIn = CheckpointIn()
    idle: IdleIn | None = None
    max_runtime: f.MaybeSeconds = None
    retries: Annotated[int, f.judged(f.whole(0, 100))] = 0
    after: f.Names = ()
    """Names of other stages of the same file, or ids of jobs, that must end first."""
    inputs: Inputs = Field(default_factory=dict)
    """Inputs from other jobs: a name here → STAGE.OUTPUT. The job starts after those."""
    outputs: Outputs = Field(default_factory=dict)
    """Outputs for other jobs: names, or a name → the path of a file or folder in the workdir."""
    when: When = SUCCESS
    """Condition on the jobs that it depends on: they must have succeeded, or only ended."""
    roles: Annotated[dict[str, RoleIn] | None, BeforeValidator(_roles)] = None
    env: f.Variables = Field(default_factory=dict)
    secrets: Secrets = Field(default_factory=dict)
    """Variables whose values are secrets: a list of them, or a mapping to the names of the secrets."""
    workdir: f.Path = ""
    snapshot: f.Flag = False
    data: Annotated[str | tuple[str, ...] | None, f.judged(_DATA)] = None
    """Data that it works on: paths (with a slash) or names. New data under the same code is retraining."""
    image: _Image = None
    """Container image of its pods; only on Kubernetes."""
    pod: _Pod = Field(default_factory=dict)
    """More fields of its pods (volumes, tolerations, labels …), laid over Grus's own; only on Kubernetes."""
    node_selector: f.Labels = Field(default_factory=dict)
    affinity: AffinityIn = AffinityIn()

    @property
    def launch_given(self) -> bool:
        """Return whether the job itself, not the pool, determines how it is launched."""
        return self.launch is not None or self.train is not None or self.serve is not None

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        given = self.model_fields_set
        if not sound.present("roles"):
            return self._whole_rules(sound)
        if self.roles is not None:
            broken = [
                BrokenRule((field,), f"cannot stand beside roles: give each role its own {field}")
                for field, there in (("run", self.run is not None), ("resources", "resources" in given))
                if there
            ]
            if self.launch is not None:
                broken.append(
                    BrokenRule(("launch",), "cannot stand beside roles: a role has one worker a replica")
                )
            if self.train is not None:
                broken.append(BrokenRule(("train",), "cannot stand beside roles: its workers are all alike"))
            if self.serve is not None:
                broken.append(BrokenRule(("serve",), "cannot stand beside roles: its replicas are all alike"))
            return broken + self._whole_rules(sound) + _role_rules(self.roles, sound)
        return self._plain_rules(sound) + self._whole_rules(sound)

    def _plain_rules(self, sound: ValidFields) -> list[BrokenRule]:
        """Rules for a job without roles."""
        broken = self._what_rules(sound)
        if not sound("resources", "gpu"):
            return broken
        ask = parse_gpu(self.resources.gpu)
        if sound("resources", "sizes"):
            broken += size_rules(self.resources, ask.count.low, ask.count.high, ("resources",), "gpu")
        if ask.auto:
            trains = self.train is not None or not sound("train")
            broken += auto_rules(self.resources, ("resources",), self.launch, trains=trains)
        elastic = not ask.count.rigid
        if elastic and self.launch in ("once", "per-node") and sound("launch"):
            rule = "must be per-gpu for a range: one process cannot gain or lose GPUs while it runs"
            broken.append(BrokenRule(("launch",), rule, self.launch))
        if self.resources.share is not None and sound("resources", "share"):
            broken += [
                BrokenRule(("resources", "share"), rule, "auto") for rule in self._why_not_shared(ask, sound)
            ]
        return broken

    def _what_rules(self, sound: ValidFields) -> list[BrokenRule]:
        """Check that exactly one of `run`, `train` and `serve` defines the work."""
        if not sound.present("serve") or self.serve is not None:
            return self._serve_rules(sound)
        if not sound.present("train") or self.train is not None:
            broken = []
            if self.run is not None:
                rule = "cannot stand beside train, which says what to do: leave one of them out"
                broken.append(BrokenRule(("run",), rule, self.run))
            planned = self.launch == "once" and self.train is not None and self.train.plan
            if self.launch in ("once", "per-node") and not planned and sound("launch"):
                rule = "must be per-gpu beside train: it has a worker for each GPU, unless a plan spreads it"
                broken.append(BrokenRule(("launch",), rule, self.launch))
            return broken
        if self.run is None and sound("run") and sound("train"):
            return [BrokenRule(("run",), "is needed: the command to run, such as python train.py, or train")]
        return []

    def _serve_rules(self, sound: ValidFields) -> list[BrokenRule]:
        rule = "cannot stand beside serve, which says what to do: leave one of them out"
        both = (("run", self.run), ("train", self.train))
        broken = [BrokenRule((name,), rule) for name, value in both if value is not None]
        if self.type != "serve" and sound("type"):
            broken.append(BrokenRule(("type",), "must be serve for a job with serve: write type: serve"))
        if self.outputs and sound("outputs"):
            rule = "are not for serve: it answers until it is stopped, and leaves nothing"
            broken.append(BrokenRule(("outputs",), rule))
        if self.serve is not None:
            if not self.serve.named and MODEL not in self.inputs and sound("serve") and sound("inputs"):
                rule = f"is needed: a function, an exported model, or an input named {MODEL} that holds one"
                broken.append(BrokenRule(("serve", "model"), rule))
            broken += serve_rules(self.resources, self.launch, self.retries, sound)
        return broken

    def _why_not_shared(self, ask: GpuAsk, sound: ValidFields) -> list[str]:
        rules = []
        if ask.auto or ask.sliced or not ask.count.rigid or ask.count.high != 1:
            rules.append("needs gpu: 1: only a job with one whole GPU can share it")
        usual = PRIORITIES[USUAL_PRIORITY[JobType(self.type)]]
        priority = usual if self.priority is None else self.priority
        if isinstance(priority, str):
            priority = PRIORITIES.get(priority, 0)
        if sound("type") and sound("priority") and priority >= NEVER_PREEMPTED:
            rules.append(
                "is for jobs that can be paused: this one is never preempted (priority 100 and above)"
            )
        return rules

    def _whole_rules(self, sound: ValidFields) -> list[BrokenRule]:
        broken = []
        if sound("env") and sum(len(key) + len(value) for key, value in self.env.items()) > 1_000_000:
            broken.append(BrokenRule(("env",), "must be at most 1 MB in all"))
        if sound("secrets") and sound("env"):
            broken += beside_env(self.secrets, self.env)
        if sound("after") and len(set(self.after)) != len(self.after):
            broken.append(BrokenRule(("after",), "names a job twice", list(self.after)))
        return broken + self._stage_rules(sound) + sweep_rules(self, sound)

    def _stage_rules(self, sound: ValidFields) -> list[BrokenRule]:
        if self.when != ALWAYS or not sound("when"):
            return []
        if self.inputs and sound("inputs"):
            rule = "cannot be always beside inputs: a stage that failed has left nothing to take"
            return [BrokenRule(("when",), rule, ALWAYS)]
        if not self.after and sound("after"):
            return [BrokenRule(("when",), "needs after: whose end it waits for", ALWAYS)]
        return []


def _role_rules(roles: Mapping[str, RoleIn], sound: ValidFields) -> list[BrokenRule]:
    broken = []
    ranged = []
    for name, role in roles.items():
        at = ("roles", name)
        if not NAME.fullmatch(name):
            broken.append(BrokenRule(at, f"a role's name {NAME_RULE}"))
        if name == SETUP:
            broken.append(BrokenRule(at, "is the name of the lines that run first; choose another"))
        if role.run is None and sound(*at, "run"):
            broken.append(
                BrokenRule((*at, "run"), "is needed: the command that each replica of this role runs")
            )
        if sound(*at, "replicas"):
            replicas = parse_range(role.replicas)
            ranged += [name] if not replicas.rigid else []
            if sound(*at, "resources"):
                broken += size_rules(
                    role.resources, replicas.low, replicas.high, (*at, "resources"), "replicas"
                )
        if role.resources.share is not None and sound(*at, "resources", "share"):
            rule = "is for a job without roles: only a job with one whole GPU can share it"
            broken.append(BrokenRule((*at, "resources", "share"), rule, role.resources.share))
        if sound(*at, "resources", "gpu"):
            broken += _role_gpu_rules(role, parse_gpu(role.resources.gpu), name, elastic=name in ranged)
    if len(ranged) > 1:
        rule = f"only one role may have a range; {', '.join(ranged)} have one"
        broken += [BrokenRule(("roles", name, "replicas"), rule, roles[name].replicas) for name in ranged[1:]]
    return broken


def _role_gpu_rules(role: RoleIn, ask: GpuAsk, name: str, *, elastic: bool) -> list[BrokenRule]:
    at = ("roles", name, "resources", "gpu")
    if ask.auto:
        rule = "auto is for a job without roles: say what each replica takes, such as 1"
        return [BrokenRule(at, rule, role.resources.gpu)]
    if not ask.count.rigid:
        rule = f"a role's range goes into its replicas: gpu: 1, replicas: {ask.count}"
        return [BrokenRule(at, rule, role.resources.gpu)]
    if elastic and (ask.sliced or ask.count.high == 0):
        return [
            BrokenRule(
                at, "a role with a range of replicas needs whole GPUs for each, such as 1", role.resources.gpu
            )
        ]
    return []
