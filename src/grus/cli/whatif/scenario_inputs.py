"""Inputs of `simulate`: the jobs, the pool, its queues and the change, from files and options.

All errors of all of them are collected and reported at once; before that nothing is simulated.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grus.cli.render.output import hint
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.model.nodes import Node
    from grus.model.queues import Queue
    from grus.simulator.whatif_scenarios import Chaos, Scenario, ScenarioChange
    from grus.simulator.workload.history_trace import History
    from grus.simulator.workload.job_work import TraceJob
    from grus.simulator.workload.pollux_applications import Application
    from grus.simulator.workload.pollux_jobs import PolluxCurves

USUAL_NODE = 8
"""GPUs per node if an error hides the pool: the trace is read all the same."""


@dataclass(slots=True)
class Gathering:
    """Collects the errors of several parts of the input."""

    mistakes: list[Mistake] = field(default_factory=list)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Record the errors raised in this block and continue with the next part."""
        try:
            yield
        except BadInput as error:
            self.mistakes += error.mistakes

    def note(self, field: str, rule: str, value: str = "") -> None:
        self.mistakes.append(Mistake(field, rule, value))

    def refuse(self) -> None:
        """Raise them all, if there are any."""
        if self.mistakes:
            raise BadInput(self.mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """Source of the jobs, as it was written."""

    trace: str
    synthetic: str | None
    history: bool
    nodes: str
    queues: str
    applications: str
    seed: int
    since: str = ""
    """Time span of a history."""


@dataclass(frozen=True, slots=True)
class PresentScenario:
    """The present, and the history that its jobs are of, if they are of one."""

    scenario: "Scenario"
    history: "History | None" = None


def present(source: WorkloadSource, change: "ScenarioChange", gathering: Gathering) -> PresentScenario | None:
    """Build the present scenario; None (with its errors and those of the change recorded) if anything is
    invalid.
    """
    from grus.simulator.whatif_scenarios import PRESENT, Scenario, changed

    if sum((bool(source.trace), source.synthetic is not None, source.history)) != 1:
        gathering.note("trace", 'give one of a CSV file, --synthetic (may be empty: "") and --history')
    pool: tuple[Node, ...] = ()
    own: tuple[Queue, ...] = ()
    works: list[TraceJob] = []
    given: tuple[Queue, ...] = ()
    history: History | None = None
    before = len(gathering.mistakes)
    with gathering.part():
        if source.since and not source.history:
            raise BadInput([Mistake("since", "is of --history; leave it out", source.since)])
    with gathering.part():
        if source.nodes or not source.history:
            pool = _parsed(source.nodes)
    if source.queues:
        with gathering.part():
            given = _queues_of(source.queues, pool)
    if source.history and not gathering.mistakes:  # a server is asked only when nothing is wrong so far
        with gathering.part():
            history = _ended_jobs(source.since)
            works = history.works()
            if not source.nodes:
                pool, own = history.nodes, history.queues
    elif not source.history:
        with gathering.part():
            works = _works(source, pool, given)
    if len(gathering.mistakes) > before:
        if pool:  # Check the change as far as possible; its quotas belong to unknown queues.
            with gathering.part():
                changed(Scenario(PRESENT, pool, (), ()), replace(change, quotas={}, load=1.0, policy=""), 0)
        return None
    made = Scenario(PRESENT, pool, given or own or _quotas(works, pool), tuple(works))
    return PresentScenario(made if history is None else replace(made, costs=history.costs), history)


def change(
    gathering: Gathering,
    add_nodes: str,
    remove: Sequence[str],
    quotas: Sequence[str],
    load: float,
    policy: str,
) -> "ScenarioChange":
    from grus.scheduler.queues.policies import policy_named
    from grus.simulator.whatif_scenarios import ScenarioChange

    numbers: dict[str, float] = {}
    for text in quotas:
        name, _, number = text.partition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            gathering.note("quota", "must be a queue and a number of GPUs, such as vision=12", text)
    if not 0 < load <= 100:
        gathering.note("load", "must be above 0 and at most 100", f"{load:g}")
    if policy:
        with gathering.part():
            policy_named(policy)
    return ScenarioChange(add_nodes=add_nodes, remove=tuple(remove), quotas=numbers, load=load, policy=policy)


def chaos(gathering: Gathering, faults: str) -> "Chaos | None":
    from grus.model.texts.units import parse_seconds
    from grus.simulator.whatif_scenarios import Chaos

    if not faults:
        return None
    try:
        between = parse_seconds(faults)
    except ValueError as error:
        gathering.note("faults", str(error), faults)
        return None
    if between < 60:
        gathering.note("faults", "must be at least a minute", faults)
    return Chaos(between)


def _parsed(nodes: str) -> "tuple[Node, ...]":
    from grus.simulator.cluster_spec import parse_nodes

    if not nodes:
        rule = "say which GPUs there are: nodes x GPUs x type, such as --nodes 2x8xA100"
        raise BadInput([Mistake("nodes", rule)])
    return parse_nodes(nodes)


# -------------------------------------------------------------------------------------------------- jobs


def _works(source: WorkloadSource, pool: "tuple[Node, ...]", queues: "tuple[Queue, ...]") -> "list[TraceJob]":
    from grus.simulator.cluster_spec import largest_node
    from grus.simulator.workload.synthetic import Mix, synthesize

    if source.synthetic is not None:
        mix = Mix.parse(source.synthetic)
        if pool and "largest" not in source.synthetic:  # no user submits a job that no node could ever run
            mix = replace(mix, largest=min(mix.largest, largest_node(pool)))
        works = synthesize(mix, source.seed)
        if not works:
            rule = "makes no jobs at all; ask for more days or jobs"
            raise BadInput([Mistake("synthetic", rule, source.synthetic)])
        return works
    return _trace(source, pool, queues) if source.trace else []


def _trace(source: WorkloadSource, pool: "tuple[Node, ...]", queues: "tuple[Queue, ...]") -> "list[TraceJob]":
    from grus.simulator.cluster_spec import largest_node, quotas_by_use
    from grus.simulator.whatif_scenarios import PRESENT, Scenario, misfits
    from grus.simulator.workload.traces import read_trace

    def judge(works: "list[TraceJob]") -> list[Mistake]:
        known = queues or tuple(quotas_by_use(works, pool, least=1))
        return misfits(Scenario(PRESENT, pool, known, tuple(works))) if pool else []

    gpus, curves = largest_node(pool) or USUAL_NODE, _curves(source)
    if source.trace == "-":
        return read_trace(sys.stdin, node_gpus=gpus, curves=curves, judge=judge)
    try:
        with Path(source.trace).open(encoding="utf-8", newline="") as file:
            return read_trace(file, node_gpus=gpus, curves=curves, judge=judge)
    except OSError as error:
        raise BadInput([Mistake("trace", f"cannot be read: {error.strerror}", source.trace)]) from None
    except UnicodeDecodeError as error:
        raise BadInput([Mistake("trace", f"is not text in UTF-8: {error.reason}", source.trace)]) from None


def _curves(source: WorkloadSource) -> "Callable[[], PolluxCurves] | None":
    """Measurements of applications: in the folder that was named, or where they lie beside a workload."""
    if source.applications:
        folder = Path(source.applications)
        if not folder.is_dir():
            raise BadInput([Mistake("applications", "names no folder", source.applications)])
    else:
        folder = Path(source.trace).absolute().parent.parent / "traces"
        if source.trace == "-" or not folder.is_dir():
            return None

    def load() -> "PolluxCurves":
        from grus.simulator.workload.pollux_jobs import PolluxCurves

        return PolluxCurves(lambda name: _application(folder, name))

    return load


def _application(traces: Path, name: str) -> "Application | None":
    from grus.simulator.workload.pollux_applications import EPOCHS, make_application

    folder = traces / name
    if name not in EPOCHS or not folder.is_dir():
        return None
    try:
        runs = {int(path.stem.split("-")[1]): _rows(path) for path in folder.glob("validation-*.csv")}
        placed, scaled = _rows(folder / "placements.csv"), _rows(folder / "scalability.csv")
        return make_application(name, placed, scaled, runs)
    except (OSError, KeyError, ValueError, IndexError) as error:
        rule = f"cannot be read: {type(error).__name__}: {error}"
        raise BadInput([Mistake("applications", rule, str(folder))]) from None


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------------------------------------------ queues


def _quotas(works: "list[TraceJob]", pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    from grus.simulator.cluster_spec import quotas_by_use

    made = quotas_by_use(works, pool, least=1)
    if len(made) > 1:
        told = ", ".join(f"{queue.name} {queue.quota.total // 1_000_000}" for queue in made)
        hint(f"No --queues: quotas by the queues' shares of the GPU-time: {told}")
    return tuple(made)


def _queues_of(path: str, pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    """The queues of a file, and the default one with what they leave."""
    from grus.api.parsing.validation_errors import read
    from grus.api.wire_types.pool import QueueIn, to_queue
    from grus.model.queues import DEFAULT_QUEUE, check_tree
    from grus.model.resources import GPU
    from grus.scheduler.queues.queue_usage_tree import default_queue
    from grus.simulator.cluster_spec import count_gpus

    data = _document(path)
    listed = data.get("queues", data)
    if not isinstance(listed, dict) or not listed:
        raise BadInput([Mistake("queues", "must list queues under [queues.NAME]", path)])
    found = [to_queue(name, read(QueueIn, rules, whole=f"queues.{name}")) for name, rules in listed.items()]
    gpus = count_gpus(pool) * GPU
    if DEFAULT_QUEUE not in listed:
        found.append(default_queue(found, gpus))
    if mistakes := check_tree(found, gpus):
        raise BadInput(mistakes)
    return tuple(found)


def _document(path: str) -> dict[str, Any]:
    import tomllib

    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.endswith(".toml") else yaml.safe_load(text)
    except OSError as error:
        raise BadInput([Mistake("queues", f"cannot be read: {error.strerror}", path)]) from None
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        kind = "TOML" if path.endswith(".toml") else "YAML"
        raise BadInput([Mistake("queues", f"is not {kind}: {error}", path)]) from None
    if not isinstance(data, dict):
        raise BadInput([Mistake("queues", "must be a mapping with queues", path)])
    return data


# ------------------------------------------------------------------------------------------- the own pool


def server_pool() -> "tuple[tuple[Node, ...], tuple[Queue, ...]]":
    """The nodes and queues of the server found here."""
    from grus.api.wire_types.pool import QueueIn, to_queue
    from grus.cli.connection import connected
    from grus.model.identifiers import DeviceId, NodeId
    from grus.model.nodes import Device, Node

    with connected() as client:
        shown, queues = client.nodes(), client.queues()
    nodes = tuple(
        Node(
            NodeId(node.id),
            tuple(Device(DeviceId(gpu.id), gpu.type, gpu.memory, gpu.island) for gpu in node.gpus),
            labels=tuple(sorted(node.labels.items())),
        )
        for node in shown
    )
    names = QueueIn.model_fields.keys()
    rules = [(queue.name, queue.model_dump(include=set(names), exclude_none=True)) for queue in queues]
    return nodes, tuple(to_queue(name, QueueIn(**given)) for name, given in rules)


def _ended_jobs(since: str) -> "History":
    from grus.cli.connection import connected
    from grus.simulator.workload.history_trace import decode

    with connected() as client:
        found = decode(client.history(last=since or None))
    if not found.jobs:
        rule = (
            "has no ended job in this time; reach further back with --since, give a CSV file or --synthetic"
        )
        raise BadInput([Mistake("history", rule, since)])
    return found
