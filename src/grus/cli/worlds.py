"""What `simulate` is asked about: the jobs, the pool, its queues and the change, from files and options.

Every mistake of all of them is gathered and told at once; before that nothing is simulated.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grus.cli.output import hint
from grus.model.errors import BadInput, Mistake

if TYPE_CHECKING:
    from grus.api.wire import EventOut, JobOut
    from grus.model.cluster import Node
    from grus.model.queues import Queue
    from grus.sdk.client import Client
    from grus.simulation.applications import Application
    from grus.simulation.pollux import Curves
    from grus.simulation.what_if import Change, Chaos, Scenario
    from grus.simulation.work import Work

PAGE = 1000
USUAL_NODE = 8
"""GPUs of a node where the pool is not known because of a mistake: the trace is read all the same."""


@dataclass(slots=True)
class Gathering:
    """Collects the mistakes of several parts of the input."""

    mistakes: list[Mistake] = field(default_factory=list)

    @contextmanager
    def part(self) -> Iterator[None]:
        """What goes wrong in here is noted, and the next part is looked at."""
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
class Source:
    """Where the jobs come from, as it was written."""

    trace: str
    synthetic: str | None
    history: bool
    nodes: str
    queues: str
    applications: str
    seed: int


def present(source: Source, change: "Change", gathering: Gathering) -> "Scenario | None":
    """The present; None (with the mistakes noted, those of the change too) if anything is wrong with it."""
    from grus.simulation.what_if import PRESENT, Scenario, changed

    if sum((bool(source.trace), source.synthetic is not None, source.history)) != 1:
        gathering.note("trace", 'give one of a CSV file, --synthetic (may be empty: "") and --history')
    pool: tuple[Node, ...] = ()
    own: tuple[Queue, ...] = ()
    works: list[Work] = []
    given: tuple[Queue, ...] = ()
    before = len(gathering.mistakes)
    with gathering.part():
        if source.history and not source.nodes:
            if not before:  # a server is asked only when nothing is wrong so far
                pool, own = server_pool()
        else:
            pool = _parsed(source.nodes)
    if source.queues:
        with gathering.part():
            given = _queues_of(source.queues, pool)
    with gathering.part():
        works = _works(source, pool, given, asks=not gathering.mistakes)
    if len(gathering.mistakes) > before:
        if pool:  # What can be said of the change already; its quotas belong to queues that are not known.
            with gathering.part():
                changed(Scenario(PRESENT, pool, (), ()), replace(change, quotas={}, load=1.0, policy=""), 0)
        return None
    return Scenario(PRESENT, pool, given or own or _quotas(works, pool), tuple(works))


def change(
    gathering: Gathering,
    add_nodes: str,
    remove: Sequence[str],
    quotas: Sequence[str],
    load: float,
    policy: str,
) -> "Change":
    from grus.scheduling.policies import policy_named
    from grus.simulation.what_if import Change

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
    return Change(add_nodes=add_nodes, remove=tuple(remove), quotas=numbers, load=load, policy=policy)


def chaos(gathering: Gathering, faults: str) -> "Chaos | None":
    from grus.api.units import parse_seconds
    from grus.simulation.what_if import Chaos

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
    from grus.simulation.pools import parse_nodes

    if not nodes:
        rule = "say which GPUs there are: nodes x GPUs x type, such as --nodes 2x8xA100"
        raise BadInput([Mistake("nodes", rule)])
    return parse_nodes(nodes)


# -------------------------------------------------------------------------------------------------- jobs


def _works(
    source: Source, pool: "tuple[Node, ...]", queues: "tuple[Queue, ...]", *, asks: bool
) -> "list[Work]":
    from grus.simulation.pools import largest_node
    from grus.simulation.workloads import Mix, synthesize

    if source.synthetic is not None:
        mix = Mix.parse(source.synthetic)
        if pool and "largest" not in source.synthetic:  # nobody submits what no node could ever run
            mix = replace(mix, largest=min(mix.largest, largest_node(pool)))
        works = synthesize(mix, source.seed)
        if not works:
            rule = "makes no jobs at all; ask for more days or jobs"
            raise BadInput([Mistake("synthetic", rule, source.synthetic)])
        return works
    if source.history:
        return _server_jobs() if asks else []
    return _trace(source, pool, queues) if source.trace else []


def _trace(source: Source, pool: "tuple[Node, ...]", queues: "tuple[Queue, ...]") -> "list[Work]":
    from grus.simulation.pools import largest_node, quotas_by_use
    from grus.simulation.traces import read_trace
    from grus.simulation.what_if import PRESENT, Scenario, misfits

    def judge(works: "list[Work]") -> list[Mistake]:
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


def _curves(source: Source) -> "Callable[[], Curves] | None":
    """Measurements of applications: in the folder that was named, or where they lie beside a workload."""
    if source.applications:
        folder = Path(source.applications)
        if not folder.is_dir():
            raise BadInput([Mistake("applications", "names no folder", source.applications)])
    else:
        folder = Path(source.trace).absolute().parent.parent / "traces"
        if source.trace == "-" or not folder.is_dir():
            return None

    def load() -> "Curves":
        from grus.simulation.pollux import Curves

        return Curves(lambda name: _application(folder, name))

    return load


def _application(traces: Path, name: str) -> "Application | None":
    from grus.simulation.applications import EPOCHS, make_application

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


def _quotas(works: "list[Work]", pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    from grus.simulation.pools import quotas_by_use

    made = quotas_by_use(works, pool, least=1)
    if len(made) > 1:
        told = ", ".join(f"{queue.name} {queue.quota.total // 1_000_000}" for queue in made)
        hint(f"No --queues: quotas by the queues' shares of the GPU-time: {told}")
    return tuple(made)


def _queues_of(path: str, pool: "tuple[Node, ...]") -> "tuple[Queue, ...]":
    """The queues of a file, and the default one with what they leave."""
    from grus.api.wire import QueueIn, read, to_queue
    from grus.model.queues import DEFAULT_QUEUE, check_tree
    from grus.model.resources import GPU
    from grus.scheduling.quota import default_queue
    from grus.simulation.pools import count_gpus

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
    from grus.api.wire import QueueIn, to_queue
    from grus.cli.access import connected
    from grus.model.cluster import Device, Node
    from grus.model.identifiers import DeviceId, NodeId

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


def _server_jobs() -> "list[Work]":
    from grus.cli.access import connected
    from grus.simulation.history import from_shown

    with connected() as client:
        works = from_shown(*server_history(client))
    if not works:
        raise BadInput([Mistake("history", "has no ended job yet; give a CSV file or --synthetic")])
    return works


def server_history(client: "Client") -> "tuple[list[JobOut], list[EventOut]]":
    """All jobs of the server that have ended, and all that happened."""
    from grus.model.jobs import TERMINAL

    jobs = client.jobs(phases=[*TERMINAL], limit=PAGE)
    while len(page := client.jobs(phases=[*TERMINAL], limit=PAGE, after=jobs[-1].id) if jobs else []):
        jobs += page
    events = client.events(limit=PAGE)
    while len(more := client.events(after=events[-1].seq, limit=PAGE) if events else []):
        events += more
    return jobs, events
